// Package mem0 speaks with the clients of mem0: those of its platform (v1, v2 and v3), those of its
// open server, and those of a REST wrapper of facts that has eleven routes below /v1.
//
// # What a memory is
//
// A memory of mem0 is a memory of the kind fact. The routes see, change and delete facts, and leave
// messages, notes and archives of the same database alone. Ids of users, agents and runs are memdb's
// users, agents and runs. Package products says where the rest of a memory of mem0 is kept: the app,
// the date of expiry, whether it is immutable, the feedback. A memory that has expired is hidden
// and stays where it is: show_expired shows it.
//
// # Which client it is
//
// Three kinds of clients share the paths below /v1. One of the platform sends Authorization: Token,
// X-Mem0-Client or Mem0-User-ID; what has none of them is one of the REST wrapper, whose lists come
// within {"results": …}. The open server's paths have no prefix.
//
// # How memories are added
//
// With a language model, package facts takes the facts out of a conversation. Without one, or with
// "infer": false, each message of a user or an assistant is kept as it is. The header
// [NoteHeader] says so, and what else was done in a lesser way than was asked. All of it is durable
// before the answer, also where the answer says PENDING.
package mem0
