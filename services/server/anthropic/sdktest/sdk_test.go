package sdktest

import (
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/services/server"
	dialect "github.com/seed-7aedc3ff/memdb/services/server/anthropic"
)

func newClient(t *testing.T) *anthropic.BetaMemoryStoreService {
	t.Helper()
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(db, server.Options{})
	s.Mount(dialect.New(nil))
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		h.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	c := anthropic.NewClient(option.WithBaseURL(h.URL), option.WithAPIKey("k"), option.WithMaxRetries(0))
	return &c.Beta.MemoryStores
}

func must[T any](t *testing.T, what string) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return v
	}
}

// failure is the error of the API that a call ended with.
func failure(t *testing.T, err error, status int, kind string) {
	t.Helper()
	var e *anthropic.Error
	if !errors.As(err, &e) || e.StatusCode != status || !strings.Contains(e.RawJSON(), `"type":"`+kind+`"`) || e.RequestID == "" {
		t.Errorf("got %v, want %d %s", err, status, kind)
	}
}

func TestStores(t *testing.T) {
	c, ctx := newClient(t), t.Context()
	s := must[*anthropic.BetaManagedAgentsMemoryStore](t, "new")(c.New(ctx, anthropic.BetaMemoryStoreNewParams{
		Name: "Plans", Description: anthropic.String("What comes next."), Metadata: map[string]string{"team": "red", "old": "x"},
	}))
	if !strings.HasPrefix(s.ID, "memstore_") || s.Name != "Plans" || s.Metadata["team"] != "red" || s.CreatedAt.IsZero() || !s.ArchivedAt.IsZero() || s.JSON.ArchivedAt.Raw() != "null" {
		t.Errorf("%s", s.RawJSON())
	}
	update := anthropic.BetaMemoryStoreUpdateParams{Description: anthropic.String(""), Metadata: map[string]string{"team": "blue"}}
	s = must[*anthropic.BetaManagedAgentsMemoryStore](t, "update")(c.Update(ctx, s.ID, update))
	if s.Description != "" || s.Name != "Plans" || s.Metadata["team"] != "blue" || s.Metadata["old"] != "x" {
		t.Errorf("%s", s.RawJSON())
	}
	for range 4 {
		must[*anthropic.BetaManagedAgentsMemoryStore](t, "new")(c.New(ctx, anthropic.BetaMemoryStoreNewParams{Name: "more"}))
	}
	list := func(archived bool) (ids []string) {
		pages := c.ListAutoPaging(ctx, anthropic.BetaMemoryStoreListParams{Limit: anthropic.Int(2), IncludeArchived: anthropic.Bool(archived)})
		for pages.Next() {
			ids = append(ids, pages.Current().ID)
		}
		if pages.Err() != nil {
			t.Fatal(pages.Err())
		}
		return ids
	}
	if ids := list(false); len(ids) != 5 || !slices.Contains(ids, s.ID) {
		t.Error(ids)
	}
	s = must[*anthropic.BetaManagedAgentsMemoryStore](t, "archive")(c.Archive(ctx, s.ID, anthropic.BetaMemoryStoreArchiveParams{}))
	if s.ArchivedAt.IsZero() || len(list(false)) != 4 || len(list(true)) != 5 {
		t.Errorf("%s", s.RawJSON())
	}
	_, err := c.Memories.New(ctx, s.ID, anthropic.BetaMemoryStoreMemoryNewParams{Path: "/a", Content: anthropic.String("x")})
	failure(t, err, 400, "invalid_request_error")
	gone := must[*anthropic.BetaManagedAgentsDeletedMemoryStore](t, "delete")(c.Delete(ctx, s.ID, anthropic.BetaMemoryStoreDeleteParams{}))
	if gone.ID != s.ID || gone.Type != anthropic.BetaManagedAgentsDeletedMemoryStoreTypeMemoryStoreDeleted {
		t.Errorf("%s", gone.RawJSON())
	}
	_, err = c.Get(ctx, s.ID, anthropic.BetaMemoryStoreGetParams{})
	failure(t, err, 404, "not_found_error")
}

func TestMemories(t *testing.T) {
	c, ctx := newClient(t), t.Context()
	s := must[*anthropic.BetaManagedAgentsMemoryStore](t, "new")(c.New(ctx, anthropic.BetaMemoryStoreNewParams{Name: "plans"}))
	add := func(path, content string) *anthropic.BetaManagedAgentsMemory {
		return must[*anthropic.BetaManagedAgentsMemory](t, path)(c.Memories.New(ctx, s.ID, anthropic.BetaMemoryStoreMemoryNewParams{Path: path, Content: anthropic.String(content), View: anthropic.BetaManagedAgentsMemoryViewFull}))
	}
	tea := add("/drinks/tea.md", "green")
	add("/drinks/hot/cocoa", "")
	add("/today", "sleep")
	if tea.Content != "green" || tea.ContentSizeBytes != 5 || tea.MemoryStoreID != s.ID || tea.Path != "/drinks/tea.md" {
		t.Errorf("%s", tea.RawJSON())
	}
	_, err := c.Memories.New(ctx, s.ID, anthropic.BetaMemoryStoreMemoryNewParams{Path: "/drinks", Content: anthropic.String("x")})
	failure(t, err, 409, "memory_path_conflict_error")

	list := func(p anthropic.BetaMemoryStoreMemoryListParams) (paths []string) {
		pages := c.Memories.ListAutoPaging(ctx, s.ID, p)
		for pages.Next() {
			switch of := pages.Current().AsAny().(type) {
			case anthropic.BetaManagedAgentsMemory:
				paths = append(paths, of.Path)
			case anthropic.BetaManagedAgentsMemoryPrefix:
				paths = append(paths, of.Path+" …")
			}
		}
		if pages.Err() != nil {
			t.Fatal(pages.Err())
		}
		return paths
	}
	if got := list(anthropic.BetaMemoryStoreMemoryListParams{Limit: anthropic.Int(1)}); !slices.Equal(got, []string{"/drinks/hot/cocoa", "/drinks/tea.md", "/today"}) {
		t.Error(got)
	}
	if got := list(anthropic.BetaMemoryStoreMemoryListParams{Depth: anthropic.Int(1)}); !slices.Equal(got, []string{"/drinks/ …", "/today"}) {
		t.Error(got)
	}
	if got := list(anthropic.BetaMemoryStoreMemoryListParams{Depth: anthropic.Int(1), PathPrefix: anthropic.String("/drinks/")}); !slices.Equal(got, []string{"/drinks/hot/ …", "/drinks/tea.md"}) {
		t.Error(got)
	}

	stale := anthropic.BetaManagedAgentsPreconditionParam{Type: anthropic.BetaManagedAgentsPreconditionTypeContentSha256, ContentSha256: anthropic.String(tea.ContentSha256)}
	change := anthropic.BetaMemoryStoreMemoryUpdateParams{MemoryStoreID: s.ID, Content: anthropic.String("black"), Path: anthropic.String("/drinks/black.md"), Precondition: stale}
	black := must[*anthropic.BetaManagedAgentsMemory](t, "update")(c.Memories.Update(ctx, tea.ID, change))
	if black.ID != tea.ID || black.MemoryVersionID == tea.MemoryVersionID || black.Path != "/drinks/black.md" || black.JSON.Content.Raw() != "null" || !black.CreatedAt.Equal(tea.CreatedAt) {
		t.Errorf("%s", black.RawJSON())
	}
	change.Content = anthropic.String("red")
	_, err = c.Memories.Update(ctx, tea.ID, change)
	failure(t, err, 409, "memory_precondition_failed_error")
	_, err = c.Memories.Delete(ctx, tea.ID, anthropic.BetaMemoryStoreMemoryDeleteParams{MemoryStoreID: s.ID, ExpectedContentSha256: anthropic.String(tea.ContentSha256)})
	failure(t, err, 409, "memory_precondition_failed_error")
	got := must[*anthropic.BetaManagedAgentsMemory](t, "get")(c.Memories.Get(ctx, tea.ID, anthropic.BetaMemoryStoreMemoryGetParams{MemoryStoreID: s.ID}))
	if got.Content != "black" {
		t.Errorf("%s", got.RawJSON())
	}
	gone := must[*anthropic.BetaManagedAgentsDeletedMemory](t, "delete")(c.Memories.Delete(ctx, tea.ID, anthropic.BetaMemoryStoreMemoryDeleteParams{MemoryStoreID: s.ID}))
	if gone.ID != tea.ID {
		t.Errorf("%s", gone.RawJSON())
	}
	_, err = c.Memories.Get(ctx, tea.ID, anthropic.BetaMemoryStoreMemoryGetParams{MemoryStoreID: s.ID})
	failure(t, err, 404, "not_found_error")
	testVersions(t, c, s.ID, tea)
}

// testVersions reads and redacts what is left of a memory that was made, changed and deleted.
func testVersions(t *testing.T, c *anthropic.BetaMemoryStoreService, store string, first *anthropic.BetaManagedAgentsMemory) {
	ctx := t.Context()
	list := func() (told []string) {
		pages := c.MemoryVersions.ListAutoPaging(ctx, store, anthropic.BetaMemoryStoreMemoryVersionListParams{
			MemoryID: anthropic.String(first.ID), View: anthropic.BetaManagedAgentsMemoryViewFull,
		})
		for pages.Next() {
			v := pages.Current()
			told = append(told, string(v.Operation)+" "+v.Path+" "+v.Content)
		}
		if pages.Err() != nil {
			t.Fatal(pages.Err())
		}
		slices.Sort(told)
		return told
	}
	if got := list(); !slices.Equal(got, []string{"created /drinks/tea.md green", "deleted /drinks/black.md ", "modified /drinks/black.md black"}) {
		t.Error(got)
	}
	v := must[*anthropic.BetaManagedAgentsMemoryVersion](t, "version")(c.MemoryVersions.Get(ctx, first.MemoryVersionID, anthropic.BetaMemoryStoreMemoryVersionGetParams{MemoryStoreID: store}))
	if v.Content != "green" || v.ContentSha256 != first.ContentSha256 || v.MemoryID != first.ID {
		t.Errorf("%s", v.RawJSON())
	}
	v = must[*anthropic.BetaManagedAgentsMemoryVersion](t, "redact")(c.MemoryVersions.Redact(ctx, v.ID, anthropic.BetaMemoryStoreMemoryVersionRedactParams{MemoryStoreID: store}))
	if v.RedactedAt.IsZero() || v.JSON.Path.Raw() != "null" || v.JSON.ContentSha256.Raw() != "null" || v.JSON.Content.Raw() != "null" || v.JSON.ContentSizeBytes.Raw() != "null" {
		t.Errorf("%s", v.RawJSON())
	}
	if got := list(); !slices.Equal(got, []string{"created  ", "deleted /drinks/black.md ", "modified /drinks/black.md black"}) {
		t.Error(got)
	}
}
