package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// Keys are what the commands about keys work on: those of a database, or of a cluster.
type Keys struct {
	// Use calls fn with the keys. create makes the database where there is none.
	Use func(ctx context.Context, create bool, fn func(*apikeys.Keys) error) error
	// Print writes a result: v with --json, and otherwise the text.
	Print func(v any, format string, args ...any) error
	// Now tells the time.
	Now func() time.Time
}

const keyExample = `
memdbctl key add --user ada --name "laptop of Ada"
memdbctl key list
memdbctl key revoke key_0123456789ab`

func (a *app) keyCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "key", "Make, list and revoke the keys of a server", keyExample)
	cmd.Long = `Make, list and revoke the keys by which programs are known to memdbd. They are stored in the
database, as hashes. A running server goes by every change at once. Once there was a key, each
request needs one, also when all are revoked; only "key clear" opens the server again.`
	return withVerbs(cmd, KeyCommands(Keys{
		Use: func(ctx context.Context, create bool, fn func(*apikeys.Keys) error) error {
			use := a.use
			if create {
				use = func(ctx context.Context, fn func(*engine.DB) error) error { return a.create(ctx, nil, fn) }
			}
			return use(ctx, func(db *engine.DB) error { return fn(apikeys.Open(db.APIKeys(), a.now)) })
		},
		Print: func(v any, format string, args ...any) error {
			if a.json {
				return a.printJSON(v)
			}
			a.printf(format, args...)
			return nil
		},
		Now: a.now,
	})...)
}

// KeyCommands are the commands below "key".
func KeyCommands(k Keys) []*cobra.Command {
	return []*cobra.Command{k.addCmd(), k.listCmd(), k.revokeCmd(), k.rotateCmd(), k.clearCmd()}
}

// keyJSON is a key in a result.
type keyJSON struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Key is the secret, where it has just been made.
	Key string `json:"key,omitempty"`
	// Scope is what it sees, null for an administrator and for metrics; Scopes are all where there are several.
	Scope      *memory.Scope  `json:"scope"`
	Scopes     []memory.Scope `json:"scopes,omitempty"`
	Admin      bool           `json:"admin,omitempty"`
	Metrics    bool           `json:"metrics,omitempty"`
	ReadOnly   bool           `json:"read_only,omitempty"`
	CreatedAt  exchange.Time  `json:"created_at"`
	ExpiresAt  *exchange.Time `json:"expires_at,omitempty"`
	RevokedAt  *exchange.Time `json:"revoked_at,omitempty"`
	LastUsedAt *exchange.Time `json:"last_used_at,omitempty"`
}

func jsonOfKey(k *apikeys.Key, secret string) keyJSON {
	instant := func(t *time.Time) *exchange.Time {
		if t == nil {
			return nil
		}
		return &exchange.Time{Time: *t}
	}
	out := keyJSON{
		ID: k.ID, Name: k.Name, Key: secret, Admin: k.Admin, Metrics: k.Metrics, ReadOnly: k.ReadOnly,
		CreatedAt: exchange.Time{Time: k.CreatedAt}, ExpiresAt: instant(k.ExpiresAt), RevokedAt: instant(k.RevokedAt), LastUsedAt: instant(k.LastUsedAt),
	}
	if len(k.Scopes) > 0 {
		out.Scope = &k.Scopes[0]
	}
	if len(k.Scopes) > 1 {
		out.Scopes = k.Scopes
	}
	return out
}

// described says what a key is, for people.
func described(k *apikeys.Key) string {
	var text strings.Builder
	text.WriteString(k.ID)
	if k.Name != "" {
		fmt.Fprintf(&text, " %q", k.Name)
	}
	text.WriteString(" sees " + k.Sees())
	if k.ReadOnly {
		text.WriteString(", read-only")
	}
	for _, t := range []struct {
		what string
		at   *time.Time
	}{{"expires", k.ExpiresAt}, {"revoked", k.RevokedAt}, {"last used", k.LastUsedAt}} {
		if t.at != nil {
			fmt.Fprintf(&text, ", %s %s", t.what, instantOf(*t.at))
		}
	}
	return text.String()
}

func instantOf(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func (k Keys) addCmd() *cobra.Command {
	var s memory.Scope
	var more []string
	var r apikeys.Rights
	var expires string
	cmd := newCmd("", "add", "Make a key, whose secret is shown this once", `
memdbctl key add --user ada --name "laptop of Ada" --expires 90d
memdbctl key add --agent planner --read-only --json
memdbctl key add --scope '{"user":"ada"}' --scope '{"agent":"planner"}'
memdbctl key add --metrics --name prometheus
memdbctl key add --admin`)
	cmd.Long = `Make a key. It sees the memories of a user, an agent or a run, and what belongs to
them, or with --admin everything. --scope gives it further scopes. Where the keys of the
database are damaged, the new key takes the place of all.`
	cmd.Args = exactly(0, "no argument")
	scopeFlags(cmd, &s)
	cmd.Flags().StringArrayVar(&more, "scope", nil, "another scope that it sees, a `JSON` object; can be repeated")
	cmd.Flags().BoolVar(&r.Admin, "admin", false, "an administrator's key, which sees everything")
	cmd.Flags().BoolVar(&r.Metrics, "metrics", false, "a key that reads /metrics, and nothing else")
	cmd.Flags().BoolVar(&r.ReadOnly, "read-only", false, "a key that changes nothing")
	cmd.Flags().StringVar(&r.Name, "name", "", "a `name` for people, as the program that has the key")
	cmd.Flags().StringVar(&expires, "expires", "", "when it stops working: a `time`, or a span such as 90d")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range []string{"user", "agent", "run", "name", "expires"} {
			if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
				return usagef(cmd, "--%s is empty", name)
			}
		}
		if s != (memory.Scope{}) {
			r.Scopes = append(r.Scopes, s)
		}
		for _, text := range more {
			var s memory.Scope
			if err := exchange.DecodeStrict([]byte(text), &s); err != nil {
				return usagef(cmd, "--scope %s: %v", text, err)
			}
			r.Scopes = append(r.Scopes, s)
		}
		if expires != "" {
			until, err := k.until(expires)
			if err != nil {
				return usagef(cmd, "--expires: %v", err)
			}
			r.ExpiresAt = &until
		}
		if err := r.Check(); err != nil { // before a database is made
			return &exitError{exitUsage, err}
		}
		return k.Use(cmd.Context(), true, func(keys *apikeys.Keys) error {
			secret, key, err := keys.Add(cmd.Context(), r)
			if err != nil {
				return err
			}
			return k.Print(jsonOfKey(&key, secret), "%s\n%s\n", described(&key), secret)
		})
	}
	return cmd
}

// until reads when a key expires: a time, or a span from now on.
func (k Keys) until(s string) (time.Time, error) {
	if span, err := policy.ParseSpan(s); err == nil {
		return k.Now().Add(time.Duration(span)), nil
	}
	return exchange.ParseExpiry(s)
}

func (k Keys) listCmd() *cobra.Command {
	cmd := newCmd("", "list", "List the keys, also those that were revoked", "memdbctl key list\nmemdbctl key list --json")
	cmd.Args = exactly(0, "no argument")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return k.Use(cmd.Context(), false, func(keys *apikeys.Keys) error {
			all, err := keys.List()
			for i := range all {
				if err = k.Print(jsonOfKey(&all[i], ""), "%s, made %s\n", described(&all[i]), instantOf(all[i].CreatedAt)); err != nil {
					break
				}
			}
			return err
		})
	}
	return cmd
}

func (k Keys) revokeCmd() *cobra.Command {
	cmd := newCmd("", "revoke ID", "End a key", "memdbctl key revoke key_0123456789ab")
	cmd.Long = `End a key. Requests and streams that use it end within a second; in a cluster within some seconds.`
	cmd.Args = exactly(1, "the ID of a key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return k.Use(cmd.Context(), false, func(keys *apikeys.Keys) error {
			key, err := keys.Revoke(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return k.Print(jsonOfKey(&key, ""), "%s is revoked\n", key.ID)
		})
	}
	return cmd
}

func (k Keys) rotateCmd() *cobra.Command {
	var grace time.Duration
	cmd := newCmd("", "rotate ID", "Make a key with the rights of another one, which ends", `
memdbctl key rotate key_0123456789ab
memdbctl key rotate key_0123456789ab --grace 24h`)
	cmd.Long = `Make a key with the name, scopes and rights of another one, and end that one: at once, or
after --grace, in which both work. The new secret is shown this once.`
	cmd.Args = exactly(1, "the ID of a key")
	cmd.Flags().Func("grace", "how long the old key goes on to work, as `24h` (default: not at all)", func(s string) error {
		span, err := policy.ParseSpan(s)
		grace = time.Duration(span)
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return k.Use(cmd.Context(), false, func(keys *apikeys.Keys) error {
			secret, key, err := keys.Rotate(cmd.Context(), args[0], grace)
			if err != nil {
				return err
			}
			return k.Print(jsonOfKey(&key, secret), "%s\n%s\n", described(&key), secret)
		})
	}
	return cmd
}

func (k Keys) clearCmd() *cobra.Command {
	var sure bool
	cmd := newCmd("", "clear --yes", "Remove all keys, so that requests need none", "memdbctl key clear --yes")
	cmd.Long = `Remove all keys, also damaged ones, and the record that there ever was one. Requests then need
no key: whoever reaches the server on this machine may do everything. A server that listens
on other addresses goes on to refuse every request, and does not start again without a key.`
	cmd.Args = exactly(0, "no argument")
	cmd.Flags().BoolVar(&sure, "yes", false, "do it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !sure {
			return usagef(cmd, "it removes all keys and opens the server to everyone on its machine; say --yes")
		}
		return k.Use(cmd.Context(), false, func(keys *apikeys.Keys) error {
			if err := keys.Clear(cmd.Context()); err != nil {
				return err
			}
			return k.Print(map[string]bool{"cleared": true}, "all keys are removed: requests need none\n")
		})
	}
	return cmd
}
