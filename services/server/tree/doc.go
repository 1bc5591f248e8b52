// Package tree keeps notes as files below a folder, with all that they ever were.
//
// # Model
//
// A file is a note whose name is the root of its tree and its path: /memories/plans/tea.md. Folders
// are what paths have in common, so one is there as long as a file below it is. A tree belongs to an
// owner. Its store says where its root is: [Memories], whose files are those of the memory tool, has
// /memories, and any other one has a root of its own.
//
// A change never overwrites: it stores a note for the new version and deletes the one of the version
// before, in one commit, so each version is a memory with a text, and its history has the text as
// long as the database keeps histories. [Tree.Redact] erases a version, and nothing else. What else
// is known of a version before the present one is an entry of the key-value store.
//
// A file has an ID that stays the same while its content and its path change. It is the ID of its
// first version, and stands in the metadata of the later ones, in the object "file".
//
// A note that is written by its name, past this package, keeps its version: this version then has
// the new text.
//
// [Tree.Run] has the six commands of the memory tool, whose answers are texts for a model.
package tree
