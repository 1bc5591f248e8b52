package mem0_test

import (
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The eleven routes of the REST wrapper, with and without the slash at their ends.
func TestWrapper(t *testing.T) {
	for _, end := range []string{"", "/"} {
		t.Run("end"+end, func(t *testing.T) {
			s := newSite(t, nil)
			r := s.plain(200, "POST", "/v1/memories"+end, `{"messages":[{"role":"user","content":"I work at Acme"},{"role":"assistant","content":"Which job?"}],"user_id":"alice"}`)
			if r.at("results", 0, "event") != "ADD" || r.at("results", 0, "new_memory") != "I work at Acme" {
				t.Fatalf("added %s", r.body)
			}
			id := r.at("results", 0, "id").(string)
			r = s.plain(200, "POST", "/v1/memories"+end, `{"messages":"I work at Acme","user_id":"alice"}`)
			if r.at("results", 0, "event") != "NONE" || r.at("results", 0, "id") != id {
				t.Errorf("the same text again: %s", r.body)
			}
			r = s.plain(200, "GET", "/v1/memories/search"+end+"?q=Acme&user_id=alice&limit=1", "")
			if got := r.texts(); !slices.Equal(got, []string{"I work at Acme"}) {
				t.Errorf("found %q", got)
			}
			if got, _ := r.at("results", 0, "score").(float64); got <= 0 || got > 1 {
				t.Errorf("score %v", got)
			}
			if got := s.plain(200, "GET", "/v1/memories/"+id+end, "").at("memory"); got != "I work at Acme" {
				t.Errorf("got %v", got)
			}
			if got := s.plain(200, "GET", "/v1/memories"+end+"?user_id=alice&limit=5", "").texts(); len(got) != 2 {
				t.Errorf("listed %q", got)
			}
			if got := s.plain(200, "PUT", "/v1/memories/"+id+end, `{"text":"I work at BigTech"}`).at("memory"); got != "I work at BigTech" {
				t.Errorf("updated to %v", got)
			}
			r = s.plain(200, "GET", "/v1/memories/"+id+"/history"+end, "")
			if r.at(1, "event") != "UPDATE" || r.at(1, "old_value") != "I work at Acme" || r.at(1, "is_deleted") != false {
				t.Errorf("history %s", r.body)
			}
			s.plain(200, "DELETE", "/v1/memories/"+id+end, "")
			s.plain(404, "GET", "/v1/memories/"+id+end, "")
			s.plain(400, "DELETE", "/v1/memories"+end, "")
			s.plain(200, "DELETE", "/v1/memories"+end+"?user_id=alice", "")
			if got := s.plain(200, "GET", "/v1/memories"+end+"?user_id=alice", "").texts(); len(got) != 0 {
				t.Errorf("after all were deleted: %q", got)
			}
			s.add("left", `"user_id":"bob"`)
			s.plain(200, "POST", "/v1/reset"+end, "")
			if got := s.plain(200, "GET", "/memories", "").texts(); len(got) != 0 {
				t.Errorf("after a reset: %q", got)
			}
		})
	}
}

func TestGraphOfAnOwner(t *testing.T) {
	s := newSite(t, nil)
	o := scope.Owner{User: "alice"}
	for _, e := range []graph.Entity{{ID: "1", Type: "person", Name: "Alice"}, {ID: "2", Type: "organization", Name: "Acme", Properties: []byte(`{"description":"a shop"}`)}} {
		_, err := s.db.Graph().Put(t.Context(), o, e, nil, nil)
		testdb.NoError(t, err)
	}
	_, err := s.db.Graph().Relate(t.Context(), o, graph.Relation{From: "1", Type: "works_at", To: "2"}, nil)
	testdb.NoError(t, err)
	r := s.plain(200, "POST", "/v1/entities/", `{"user_id":"alice"}`)
	if r.at("results", 0, "name") != "Alice" || r.at("results", 1, "type") != "organization" || r.at("results", 1, "description") != "a shop" {
		t.Errorf("entities %s", r.body)
	}
	for _, name := range []string{"alice", "Acme", "2"} {
		r = s.plain(200, "GET", "/v1/entities/"+name+"/relations/?user_id=alice", "")
		if list := r.at("results").([]any); len(list) != 1 || r.at("results", 0, "source") != "Alice" || r.at("results", 0, "relation") != "works_at" || r.at("results", 0, "target") != "Acme" {
			t.Errorf("relations of %s: %s", name, r.body)
		}
	}
	s.plain(404, "GET", "/v1/entities/Alic/relations?user_id=alice", "")
	s.plain(404, "GET", "/v1/entities/Alice/relations?user_id=bob", "")
	s.plain(400, "POST", "/v1/entities", `{}`)
}
