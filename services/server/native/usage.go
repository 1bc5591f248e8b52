package native

import (
	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/usage"
)

func usageRoutes() []route {
	return []route{
		opRoute(api.UsageAdd), opRoute(api.UsageTotal), listRoute(api.UsageBy, nil), listRoute(api.UsageRank, hideNames), opRoute(api.UsageRollUp),
		listRoute(api.UsageBudgetList, nil), opRoute(api.UsageBudgetSet), opRoute(api.UsageBudgetRemove), opRoute(api.UsageBudgetCheck),
	}
}

// hideNames hides the name of an agent from all but administrators: it is in the manifest of the agent.
func hideNames(a *ask, r *usage.Ranked) {
	if !a.Admin() {
		r.Name = r.AgentID
	}
}
