package engine

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestSmoke(t *testing.T) {
	fs := vfs.NewMem()
	ctx := t.Context()
	db, err := Open("db", &Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	s := Scope{User: "ada"}
	for _, text := range []string{"prefers tea to coffee", "works on the analytical engine", "prefers tea to coffee"} {
		st, err := db.Memories().Store(ctx, Memory{Scope: s, Text: text}, nil)
		t.Log(st, err)
	}
	for _, p := range []Profile{ProfileText, ProfileVector, ProfileHybrid} {
		r, err := db.Memories().Recall(ctx, Query{Scope: s, Text: "what tea does she prefer?", Profile: p, Explain: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range r.Hits {
			t.Log(p, h.ID, h.Score, h.Text, h.Parts)
		}
		t.Logf("%+v", r.Plan)
	}
	rep, err := db.Check(ctx)
	t.Log(rep, err)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, err = Open("db", &Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	page, err := db.Memories().List(ctx, ListQuery{Scope: s})
	t.Log(page, err)
	rep, err = db.Check(ctx)
	t.Log(rep, err)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
