// Package graph keeps entities and the relations between them, for an owner each: who and
// what an agent knows of, and how it hangs together.
//
// # Model
//
// An [Entity] belongs to an owner and has an ID, which is the caller's or a UUID. A
// [Relation] goes from one entity to another and has a type; the triple (from, type, to)
// names it, unless the caller gives it an ID, by which there may be several with one triple.
// A relation A -works_on-> B answers from B as B -inverse:works_on-> A. The inverse is not
// stored: it follows from the one relation, once, also where B comes later than the
// relation. Until then B is a forward reference, which no query returns or goes through.
//
// A put changes what it names and leaves the rest. Properties are merged by their first
// level: a key that is given takes the place of the one that is there, null removes it, and
// keys that are not given stay. Aliases are added, and relations that are not named stay.
//
// A change never overwrites: the version before is kept as superseded, from the LSN at
// which it was born to the one at which it died, so that a query can be asked as of an
// earlier LSN. What is deleted is gone from those earlier states, too. Beside this recorded
// time a relation may have a time in which it was true, ValidFrom to ValidTo.
//
// Two entities that are one are merged: one takes what the other has, which becomes a
// forward reference with its superseded versions. Its ID leads to the one that stayed, in all
// that reads and as an end of relations, until something is put under it. A record of the merge, and what died with
// it, are enough to undo it. In another database, which an export was imported into, those
// versions never lived: there the record of the merge has them.
//
// An entity may have links to memories of its owner. A link goes with either end. An entity
// that an extractor has found in texts, and that nobody has put, goes with its last link unless
// it has relations; a relation of that kind knows the memories whose texts tell of it, and goes
// with the last of them. Both go in the commit in which a memory dies or gets another text, and
// come back with a memory that comes back from the trash.
//
// # Keys
//
// Entities, types and relations have numbers of their own within an owner, from 1 on and
// never used again; 0 is no number. All keys begin with the number of the owner, so that
// ranges of keys are all that an owner has.
//
//	g | owner | o                                → the owner, counts, the numbers given out
//	g | owner | t | class | number               → a type: of entities or of relations
//	g | owner | T | class | name                 → its number
//	g | owner | i | hash of the ID               → the number of an entity
//	g | owner | e | number                       → an entity, or the ID of a forward reference
//	g | owner | h | number | born                → a superseded version of it
//	g | owner | n | folded name | 0 | number     → nothing: by names and aliases
//	g | owner | m | type | number                → nothing: by types
//	g | owner | r | hash of the ID               → a relation that has an ID of its own
//	g | owner | R | hash of the ID               → the number of one that an import brought and that is no more
//	g | owner | l | number | seq                 → a link to a memory: its time
//	g | owner | L | seq | number                 → nothing: the link from its other end
//	g | owner | u | into | number                → a merge: the links that it moved, or all of one that an import brought
//	g | owner | w | from | type | to | seq       → nothing: a memory whose text tells of the relation
//	g | owner | W | seq | from | type | to       → nothing: the same, from the memory
//	g | owner | k | seq                          → what a memory in the trash had
//	a | owner | f | from | type | to [| number]  → a relation
//	a | owner | t | to | type | from [| number]  → nothing: the relation from its other end
//	a | owner | s | from | type | to | number | born  → a superseded version: died, the relation
//	a | owner | S | to | type | from | number | born  → nothing: its other end
//	j | owner | number                           → an entity that is deleted, to be cleaned up after
//	j | owner | number | seq                     → an extracted entity that has lost its link to a memory
//	j | owner | from | type | to | seq           → a relation that a memory tells of no more
//
// The relations of an entity lie together in the order of their types and other ends, so
// that a neighbourhood is two scans. Which relations a deleted entity had is in its keys
// alone: the commit that deletes the entity is small, and a worker removes the relations
// in steps. Until it has, both ends of a relation must be there for it to be seen.
package graph
