package cli

import (
	"context"
	"strings"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// things are who and what the conversation is about, and how they hang together.
var things = []struct {
	entity    graph.Entity
	relations []graph.Edge
}{
	{graph.Entity{ID: "lena", Type: "person", Name: "Lena"}, []graph.Edge{{Type: "runs", Target: "workshop"}, {Type: "knows", Target: "oskar"}}},
	{graph.Entity{ID: "oskar", Type: "person", Name: "Oskar"}, []graph.Edge{{Type: "has_dog", Target: "pixel"}}},
	{graph.Entity{ID: "pixel", Type: "dog", Name: "Pixel"}, nil},
	{graph.Entity{ID: "workshop", Type: "place", Name: "Workshop"}, nil},
}

// relate stores a small graph and walks it.
func (d *demo) relate(ctx context.Context) error {
	owner := memory.Owner{Agent: demoAgent}
	for _, t := range things {
		if _, err := d.db.Graph().Put(ctx, owner, t.entity, t.relations, nil); err != nil {
			return err
		}
	}
	walk, err := d.db.Graph().Query(ctx, owner, "pixel", 2, graph.State{})
	if err != nil {
		return err
	}
	if !d.json {
		d.title("Store who belongs to whom, and walk two relations from Pixel")
	}
	for _, f := range walk.Found {
		if d.json {
			err := d.printJSON(struct {
				Step  string `json:"step"`
				ID    string `json:"id"`
				Depth int    `json:"depth"`
			}{"graph", f.ID, f.Depth})
			if err != nil {
				return err
			}
			continue
		}
		d.line("%s%s", strings.Repeat("  ", f.Depth), f.ID)
	}
	return nil
}
