package mcp

import (
	"context"
	"errors"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-7aedc3ff/memdb/services/server/tree"
)

// commands are those of the memory tool.
var commands = []any{"view", "create", "str_replace", "insert", "delete", "rename"}

// ofCommand says what the arguments of the memory tool are.
var ofCommand = map[string]string{
	"command":     "what to do",
	"path":        "of all commands but rename: a file or a folder, /memories or below it",
	"view_range":  "of view: the first and the last line, counted from 1; -1 is the end",
	"file_text":   "of create: the content",
	"old_str":     "of str_replace: a text that is there once",
	"new_str":     "of str_replace: what takes its place",
	"insert_line": "of insert: the line after which the text goes, 0 for the top",
	"insert_text": "of insert: the text",
	"old_path":    "of rename: what is to be renamed",
	"new_path":    "of rename: its new path",
}

// addFiles adds the memory tool.
func (h *host) addFiles() {
	in, err := jsonschema.For[tree.Command](nil)
	if err != nil { // a type that no schema is made of
		h.Logger.Error("a tool has no schema", "tool", "memory", "error", err)
		return
	}
	for name, p := range in.Properties {
		p.Description = ofCommand[name]
	}
	in.Properties["command"].Enum = commands
	files := &tree.Tree{DB: h.db, Owner: h.Scope.Owner(), Now: h.Now}
	deletes, no := true, false
	sdk.AddTool(h.sdk, &sdk.Tool{
		Name: "memory", Title: "Memory", InputSchema: in,
		Description: "Files that outlive the conversation, below /memories. View /memories before you begin, read what may matter, and keep there what will matter later.",
		Annotations: &sdk.ToolAnnotations{Title: "Memory", DestructiveHint: &deletes, OpenWorldHint: &no},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, c tree.Command) (*sdk.CallToolResult, any, error) {
		said, err := files.Run(ctx, c)
		refusal, refused := errors.AsType[tree.Refusal](err)
		switch {
		case refused:
			return failed(refusal.Error()), nil, nil
		case err != nil:
			return failed(h.told(err).Error()), nil, nil
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: said}}}, nil, nil
	})
}
