package config

import "testing"

// TestVariable: every variable that a provider has by default may be looked up, and of others
// only what is called a secret.
func TestVariable(t *testing.T) {
	may := []string{"MY_KEY", "MY_ANTHROPIC_KEY", "KEY_2", "NEO4J_URL", "NEO4J_USER", "NEO4J_PASSWORD"}
	for _, p := range known {
		may = append(may, p.Variable, p.BaseVariable)
	}
	for _, name := range may {
		if name != "" && !Variable(name) {
			t.Errorf("%s may not be looked up", name)
		}
	}
	for _, name := range []string{"", "HOME", "PATH", "MEMDB_DIR", "KEYBOARD", "SSH_AUTH_SOCK", "sk-live_key"} {
		if Variable(name) {
			t.Errorf("%s may be looked up", name)
		}
	}
}
