package usage

// GroupLine is a group of records as one flat JSON object: one of the first three has a value.
type GroupLine struct {
	Agent *string `json:"agent,omitempty"`
	Model *string `json:"model,omitempty"`
	Day   *string `json:"day,omitempty"`
	Totals
}

// NewGroupLine is the line of a group.
func NewGroupLine(by By, g Group) GroupLine {
	line := GroupLine{Totals: g.Totals}
	switch by {
	case ByAgent:
		line.Agent = &g.Name
	case ByModel:
		line.Model = &g.Name
	case ByDay:
		line.Day = &g.Name
	}
	return line
}

// Name is the agent, the model or the day of the group.
func (l *GroupLine) Name() string {
	for _, name := range []*string{l.Agent, l.Model, l.Day} {
		if name != nil {
			return *name
		}
	}
	return ""
}
