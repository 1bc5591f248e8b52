package api

import (
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// TestMessage verifies what requests are in HTTP. A field that is zero is left out, unless the server would take another
// value for it.
func TestMessage(t *testing.T) {
	span, one, zero := policy.Span(36*time.Hour), uint64(1), 0
	cost, err := usage.ParseUSD("0.05")
	if err != nil {
		t.Fatal(err)
	}
	of := Owner{Agent: "a"}
	for _, c := range []struct {
		call interface{ Message() (*Message, error) }
		want Message
	}{
		{new(KVPut.Call(&KVPutRequest{Owner: of, Key: "a/b ?", TTL: &span, IfVersion: &one, Value: json.RawMessage(`{}`)})), Message{"PUT", "/kv/a%2Fb%20%3F?agent=a&if_version=1&ttl=36h0m0s", []byte(`{}`)}},
		{new(KVGet.Call(&KVKey{of, ".."})), Message{"GET", "/kv/%2E%2E?agent=a", nil}},
		{new(KVGet.Call(&KVKey{Owner{User: "u", NoUser: true, NoAgent: true}, "k"})), Message{"GET", "/kv/k?agent=&user=u", nil}},
		{new(KVList.Call(&KVListRequest{})), Message{"GET", "/kv", nil}},
		{new(KVList.Call(&KVListRequest{Page: Page{Limit: 5}})), Message{"GET", "/kv?limit=5", nil}},
		{new(GraphQuery.Call(&GraphQueryRequest{GraphWalk: GraphWalk{GraphEntity: GraphEntity{of, "e"}}})), Message{"GET", "/graph/entities/e/around?agent=a&depth=0", nil}},
		{new(GraphRank.Call(&GraphRankRequest{IDs: []string{"x", "y"}, Limit: 10})), Message{"GET", "/graph/rank?id=x&id=y&limit=10", nil}},
		{new(GraphPath.Call(&GraphPathRequest{From: "x"})), Message{"GET", "/graph/path?from=x&to=", nil}},
		{new(NoteSearch.Call(&NoteSearchRequest{Owner: of, Query: "tea"})), Message{"GET", "/notes?agent=a&limit=0&query=tea", nil}},
		{new(NoteList.Call(&NoteListRequest{Limit: &zero})), Message{"GET", "/notes?limit=0", nil}},
		{new(UsageTotal.Call(&ModelCalls{Since: time.Date(2026, 11, 1, 1, 0, 0, 5, time.FixedZone("", 3600))})), Message{"GET", "/usage/total?since=2026-11-01T00%3A00%3A00.000000005Z", nil}},
		{new(UsageBudgetCheck.Call(&UsageBudgetCheckRequest{Cost: &cost})), Message{"GET", "/usage/budgets/check?cost=0.05", nil}},
		{new(UsageAdd.Call(&UsageAddRequest{ModelCall: ModelCall{Model: "m", Cost: cost}, WithinBudget: true})), Message{"POST", "/usage?within_budget=true", []byte(`{"cost_usd":0.05,"model":"m"}`)}},
		{new(GraphAdd.Call(&GraphAddRequest{Entity: graph.Given{ID: "e", Type: "person", Relations: []graph.EdgeLine{{Target: "f", Type: "knows"}}}})), Message{"POST", "/graph/entities", []byte(`{"id":"e","relations":[{"target":"f","type":"knows"}],"type":"person"}`)}},
		{new(GraphRelate.Call(&GraphRelateRequest{NewRelation: NewRelation{From: "a", ValidTo: exchange.Time{Time: time.Unix(0, 0)}}})), Message{"POST", "/graph/relations", []byte(`{"from":"a","relation":"","to":"","valid_to":"1970-01-01T00:00:00.000Z"}`)}},
		{new(SessionOpen.Call(&SessionOpenRequest{Owner: of, Run: "r"})), Message{"POST", "/sessions/r/open?agent=a", nil}},
		{new(SessionOpen.Call(&SessionOpenRequest{Owner: of, Channel: "c"})), Message{"POST", "/sessions?agent=a", []byte(`{"channel":"c"}`)}},
	} {
		got, err := c.call.Message()
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%+v %s, %v\nwant %+v %s", got, got.Body, err, c.want, c.want.Body)
		}
	}
	call := KVGet.Call(&KVKey{Owner: of})
	if _, err := call.Message(); err == nil || err.Error() != "get a value: the key is empty" {
		t.Errorf("without a key: %v", err)
	}
}

// TestMessagesOfAll verifies that the request of each operation can be sent.
func TestMessagesOfAll(t *testing.T) {
	for _, op := range All() {
		if op.Describe().Route == "" { // another operation is asked for it
			continue
		}
		call := reflect.ValueOf(op).MethodByName("Call")
		made := call.Call([]reflect.Value{reflect.New(call.Type().In(0).Elem())})[0]
		to := reflect.New(made.Type())
		to.Elem().Set(made)
		sender := to.Interface().(interface{ Message() (*Message, error) })
		m, err := sender.Message()
		path := slices.ContainsFunc(op.Fields(), func(f Field) bool { return f.Place == InPath })
		switch {
		case path && errors.Is(err, memory.ErrInvalid): // a part of the path cannot be empty
		case err != nil:
			t.Errorf("%s: %v", op.Describe().Name, err)
		case m.Body != nil && !json.Valid(m.Body):
			t.Errorf("%s: the body %q", op.Describe().Name, m.Body)
		}
	}
}

// TestTexts verifies that what is written in a query is read as the same value.
func TestTexts(t *testing.T) {
	type all struct {
		Owner
		Share  float64       `query:"share" help:"h"`
		Size   int64         `query:"size" help:"h"`
		Filter filter.Filter `query:"filter" help:"h"`
		Amount usage.USD     `query:"amount" help:"h"`
		Span   policy.Span   `query:"span" help:"h"`
		At     exchange.Time `query:"at" help:"h"`
		Flag   bool          `query:"flag" help:"h"`
		Many   []string      `query:"many" help:"h"`
	}
	amount, err := usage.ParseUSD("12.000000000000000001")
	if err != nil {
		t.Fatal(err)
	}
	want := all{
		Owner: Owner{User: "ä&="}, Share: 1e-7, Size: 1 << 62, Filter: filter.Eq("kind", "note"), Amount: amount, Span: policy.Span(time.Millisecond),
		At: exchange.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)}, Flag: true, Many: []string{"", "b"},
	}
	fields := FieldsOf(reflect.TypeFor[all]())
	m, err := message(&Operation{Route: "GET /x"}, fields, &want)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(m.Target)
	if err != nil {
		t.Fatal(err)
	}
	var got all
	for _, f := range fields {
		for _, text := range u.Query()[f.Name] {
			v, err := f.Kind.Read(t.Context(), nil, text)
			if err == nil {
				err = f.Set(&got, v)
			}
			if err != nil {
				t.Error(f.Name, text, err)
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\n%+v\nwant %+v", m.Target, got, want)
	}
}
