package dialecttest

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// mem0Item is a memory as a dump of mem0 has it.
type mem0Item map[string]any

// randomMem0 makes memories as mem0 lists them.
func randomMem0(t *testing.T, now time.Time) []mem0Item {
	r := random(t)
	maybe := func(m mem0Item, key string, value any) {
		if r.IntN(2) == 0 {
			m[key] = value
		}
	}
	zones := []*time.Location{time.UTC, time.FixedZone("", -7*3600), time.FixedZone("", 5*3600+1800)}
	var all []mem0Item
	for i := range 40 {
		text := fmt.Sprintf("Text %d about %s", i, []string{"pots", "tea", "bees"}[r.IntN(3)])
		m := mem0Item{"id": fmt.Sprintf("m-%d", i), "memory": text, "user_id": []string{"ola", "kim"}[r.IntN(2)]}
		made := now.Add(-time.Duration(r.IntN(1_000_000)) * time.Second).In(zones[r.IntN(3)]).Truncate(time.Second)
		m["created_at"] = made.Format(time.RFC3339)
		m["updated_at"] = made.Add(time.Duration(r.IntN(1000)) * time.Second).Format(time.RFC3339)
		maybe(m, "agent_id", "tutor")
		maybe(m, "run_id", "r1")
		maybe(m, "app_id", []string{"shop", "desk"}[r.IntN(2)])
		maybe(m, "immutable", true)
		maybe(m, "expiration_date", now.AddDate(0, 0, r.IntN(5)-2).Format(time.DateOnly))
		maybe(m, "categories", []string{"c1", "c2"}[:1+r.IntN(2)])
		maybe(m, "metadata", map[string]any{"k": r.IntN(3), "categories": "own", "deep": map[string]any{"x": []int{1}}})
		maybe(m, "role", []string{"user", "assistant", "critic"}[r.IntN(3)])
		maybe(m, "actor_id", "ola")
		maybe(m, "hash", fmt.Sprintf("%032d", i))
		maybe(m, "structured_attributes", map[string]any{"day": 3})
		maybe(m, "score", .5)
		all = append(all, m)
	}
	return all
}

// show is what the platform answers for a memory of a dump.
func (m mem0Item) show() map[string]any {
	want := map[string]any{
		"user_id": nil, "agent_id": nil, "run_id": nil, "app_id": nil, "immutable": false, "expiration_date": nil,
		"categories": []any{}, "metadata": map[string]any{},
	}
	maps.Copy(want, m)
	delete(want, "score")
	return want
}

// hidden reports whether the day of expiry has passed.
func (m mem0Item) hidden(now time.Time) bool {
	day, ok := m["expiration_date"].(string)
	return ok && day < now.UTC().Format(time.DateOnly)
}

// sameMem0 compares an answer with what is wanted: the keys that the dump has, and times as instants.
func sameMem0(t *testing.T, got any, want map[string]any) {
	t.Helper()
	for key, value := range want {
		have := at(got, key)
		if key == "created_at" || key == "updated_at" {
			g, err := time.Parse(time.RFC3339, have.(string))
			w, _ := time.Parse(time.RFC3339, value.(string))
			if err != nil || !g.Equal(w) {
				t.Errorf("%v: %s is %v, want %v", want["id"], key, have, value)
			}
			continue
		}
		same(t, fmt.Sprintf("%v: %s", want["id"], key), have, value)
	}
}

// listed are the IDs of the memories that a list has.
func (s *site) listed(filters map[string]any, expired bool) (ids []string) {
	s.t.Helper()
	got := s.ask(200, "POST /v3/memories/?page_size=200", toJSON(s.t, map[string]any{"filters": filters, "show_expired": expired}))
	for _, item := range at(got, "results").([]any) {
		ids = append(ids, at(item, "id").(string))
	}
	slices.Sort(ids)
	return ids
}

// TestMem0 verifies that memories of a dump are answered as mem0 answers them: what they have, the
// filters that find them, expiry by the day, and updates of immutable ones.
func TestMem0(t *testing.T) {
	s := newSite(t)
	dump := randomMem0(t, s.clock.Now())
	relations := []map[string]any{{"source": "ola", "relationship": "likes", "target": "tea", "target_type": "drink", "user_id": "ola"}}
	report, left := s.imports(move.Mem0, toJSON(t, map[string]any{"relations": relations, "results": dump}), memory.Scope{})
	scores := 0
	for _, m := range dump {
		if m["score"] != nil {
			scores++
		}
	}
	if report.Skipped > 0 || report.Imported["memory"] != len(dump) || left["score"] != scores || len(left) > 1 {
		t.Errorf("%+v, left out %v", report, left)
	}
	ids := func(keep func(mem0Item) bool) (ids []string) {
		for _, m := range dump {
			if keep(m) {
				ids = append(ids, m["id"].(string))
			}
		}
		slices.Sort(ids)
		return ids
	}
	for _, m := range dump {
		sameMem0(t, s.ask(200, "GET /v1/memories/"+m["id"].(string)+"/", ""), m.show())
	}
	for range 4 { // day by day
		now := s.clock.Now()
		for key, values := range map[string][]string{"user_id": {"ola", "kim"}, "app_id": {"shop", "desk"}, "agent_id": {"tutor"}, "run_id": {"r1"}} {
			for _, value := range values {
				of := func(m mem0Item) bool { return m[key] == value }
				same(t, key+" "+value, s.listed(map[string]any{key: value}, false), ids(func(m mem0Item) bool { return of(m) && !m.hidden(now) }))
				same(t, key+" "+value+", expired", s.listed(map[string]any{key: value}, true), ids(of))
			}
		}
		s.clock.Advance(24 * time.Hour)
		_, err := s.db.Memories().List(t.Context(), memory.ListQuery{AllScopes: true})
		testdb.NoError(t, err)
	}
	same(t, "categories", s.listed(map[string]any{"AND": []any{map[string]any{"user_id": "*"}, map[string]any{"categories": map[string]any{"contains": "c2"}}}}, true),
		ids(func(m mem0Item) bool { c, _ := m["categories"].([]string); return slices.Contains(c, "c2") }))
	same(t, "metadata", s.listed(map[string]any{"user_id": "*", "metadata": map[string]any{"k": 1}}, true),
		ids(func(m mem0Item) bool { k, _ := m["metadata"].(map[string]any); return k["k"] == 1 }))
	for _, m := range dump {
		status := 200
		if m["immutable"] == true {
			status = 400
		}
		s.ask(status, "PUT /v1/memories/"+m["id"].(string)+"/", `{"text":"Another text"}`)
	}
	found := s.ask(200, "GET /v1/entities/ola/relations/?user_id=ola", "")
	same(t, "relations", at(found, "results"), []any{map[string]any{"source": "ola", "relation": "likes", "target": "tea"}})
}

// TestMem0Twins verifies that a memory is the same record whether it was imported or added.
func TestMem0Twins(t *testing.T) {
	sent, imported := newSite(t), newSite(t)
	now := sent.clock.Now().UTC().Truncate(time.Second)
	for i, m := range randomMem0(t, now) {
		for _, key := range []string{"hash", "score", "categories", "structured_attributes", "actor_id", "updated_at"} {
			delete(m, key)
		}
		if role := m["role"]; role == nil || role == "critic" {
			m["role"] = "user"
		}
		made, err := time.Parse(time.RFC3339, m["created_at"].(string))
		testdb.NoError(t, err)
		body := map[string]any{"messages": []any{map[string]any{"role": m["role"], "content": m["memory"]}}, "infer": false, "timestamp": made.Unix()}
		for _, key := range []string{"user_id", "agent_id", "run_id", "app_id", "immutable", "expiration_date", "metadata"} {
			if m[key] != nil {
				body[key] = m[key]
			}
		}
		added := sent.ask(200, "POST /v3/memories/add/", toJSON(t, body))
		m["id"] = at(added, "results", 0, "id")
		imported.imports(move.Mem0, toJSON(t, map[string]any{"results": []any{m}}), memory.Scope{})
		id := m["id"].(string)
		same(t, fmt.Sprint("record ", i), record(t, imported, id), record(t, sent, id))
	}
}

// record is a memory as it is stored.
func record(t *testing.T, s *site, id string) memory.Memory {
	t.Helper()
	for m, err := range s.db.Memories().All(t.Context(), memory.ListQuery{AllScopes: true}) {
		testdb.NoError(t, err)
		if m.ID == id {
			m.Seq = 0
			return m
		}
	}
	t.Fatalf("there is no %s", id)
	return memory.Memory{}
}

// TestMem0Forms verifies the forms in which mem0's programs write their lists.
func TestMem0Forms(t *testing.T) {
	one := `{"id":"a","memory":"Keeps bees","userId":"ola","appId":"shop","expirationDate":"2030-01-01T00:00:00Z","createdAt":"2024-07-26T08:44:41-07:00"}`
	for form, want := range map[string]int{
		one: 1, `[` + one + `]`: 1, `{"results":[` + one + `]}`: 1, `{"memories":[` + one + `]}`: 1, `["Keeps bees","Sells honey"]`: 2,
		`{"count":1,"next":"http://h/?page=2","previous":null,"results":[` + one + `]}`: 1,
	} {
		s := newSite(t)
		report, left := s.imports(move.Mem0, form, memory.Scope{User: "ola"})
		if report.Stored != want || report.Skipped != 0 || strings.Contains(form, "page=2") != (left["pages behind the last one"] == 1) {
			t.Errorf("%s: %+v, left out %v", form, report, left)
		}
		if got := s.listed(map[string]any{"user_id": "ola"}, false); len(got) != want {
			t.Errorf("%s: listed %v", form, got)
		}
		if strings.Contains(form, "appId") {
			got := s.ask(200, "GET /v1/memories/?app_id="+url.QueryEscape("shop"), "")
			same(t, form, []any{at(got, 0, "app_id"), at(got, 0, "expiration_date")}, []any{"shop", "2030-01-01"})
		}
	}
	s := newSite(t) // relations that name nobody belong to whom the memories belong to
	s.imports(move.Mem0, `{"relations":[{"source":"Ola","relationship":"keeps","destination":"bees"}],"results":[`+one+`]}`, memory.Scope{})
	same(t, "relations", at(s.ask(200, "GET /v1/entities/ola/relations/?user_id=ola", ""), "results"), []any{map[string]any{"source": "Ola", "relation": "keeps", "target": "bees"}})
}
