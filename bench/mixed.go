package main

import (
	"context"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/internal/languageset"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// foreignTexts is how many memories in other languages lie beside each conversation.
const foreignTexts = 100

// mixed is locomo with memories in other languages beside the turns: what they cost a
// user who asks in English.
func mixed() *harness.Workload {
	w := locomo()
	w.Name, w.Summary = "mixed", fmt.Sprintf("locomo, alone and with %d memories in other languages in each conversation", foreignTexts)
	w.Contestants = mixedContestants
	return w
}

func mixedContestants(env *harness.Env) ([]harness.Contestant, error) {
	talks, err := readTalks(env)
	if err != nil {
		return nil, err
	}
	var list []harness.Contestant
	alone, beside := &locomoDB{env: env, talks: talks}, &locomoDB{env: env, talks: talks}
	for _, talk := range talks {
		beside.foreign = append(beside.foreign, foreign(talk.ID)...)
	}
	for i, profile := range []memory.Profile{memory.ProfileText, memory.ProfileBest} {
		list = append(list, alone.contestant(profile, i == 0))
		c := beside.contestant(profile, false)
		c.Name += ", other languages beside"
		list = append(list, c)
	}
	return list, nil
}

// foreign are memories of all languages but English, one of each in turn.
func foreign(scope string) (docs []peer.Document) {
	all := languageset.All()
	for i := 0; len(docs) < foreignTexts; i++ {
		l, n := &all[i%len(all)], i/len(all)
		if l.Code != "en" {
			docs = append(docs, peer.Document{ID: memoryID("foreign", l.Code, n) + scope, Scope: scope, Text: l.List[n].Memory})
		}
	}
	return docs
}

// addForeign stores them.
func (l *locomoDB) addForeign(ctx context.Context) error {
	m := &memdb{db: l.db}
	return m.Add(ctx, l.foreign)
}
