// Package move brings what other programs keep into a database, and takes memories out in
// forms that other programs and people read.
//
// On the way in each program has a reader of its own: [Recognise] finds by the keys of the first
// records which one an input takes, in whatever container they are, and [Read] translates the
// input to memories, sessions, entities and entries, one after another, so that an input of any
// size takes little memory. What a reader has no place for is counted by what it is
// ([Items.LeftOut]), and what it cannot read is an item with an error. IDs follow from the input
// alone: an input that is read twice has the same ones.
//
// docs/moving.md describes the forms, key by key.
package move
