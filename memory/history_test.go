package memory

import "testing"

// TestLifeWithoutHistory: a life that was only added, or that nobody has filled, has an owner
// and nothing to refuse.
func TestLifeWithoutHistory(t *testing.T) {
	ada := Scope{User: "ada", Run: "r"}
	for _, c := range []struct {
		life Life
		want Owner
	}{
		{Life{}, Owner{}},
		{Life{Memory: &Memory{Scope: ada}}, Owner{User: "ada"}},
		{Life{History: []HistoryEntry{{Scope: ada}}}, Owner{User: "ada"}},
	} {
		if got := c.life.Owner(); got != c.want {
			t.Errorf("%+v is of %+v, want %+v", c.life, got, c.want)
		}
		if err := c.life.Check("restore"); err != nil && len(c.life.History) == 0 {
			t.Error(err)
		}
	}
}
