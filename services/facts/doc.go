// Package facts is a memory of facts: a language model reads conversations, takes out
// the facts that are worth keeping, and decides for each whether it is new, corrects an
// earlier one, ends it, or is known already.
//
// # Model
//
// A fact is a memory of the kind fact in a database of package engine. It belongs to a
// scope of user, agent and run, of which a call names at least one; a call finds the
// facts that match in every part that it names. A model is shown, and changes, only
// facts of exactly the scope of its call, unless ExactScope is off. The methods of [Facts] see, change and
// delete memories of this kind and the graph that was made of them, and nothing else of
// the database.
//
// # How facts are added
//
// [Facts.Add] works in three steps.
//
//  1. Extraction: the model gets the conversation and returns a list of facts.
//  2. Decision: for each fact, the nearest five facts of the scope are found, and the
//     model says what to do: ADD, UPDATE, DELETE or NONE. It knows the five by their
//     place in the list and never by an ID, so that no text in a conversation can make
//     it name a fact of another scope. A fact whose text is there already is NONE, and
//     the model is not asked. Several facts are worked on at once.
//  3. Commit: everything that was decided becomes one commit of the database, or nothing
//     does. Until then no lock is held. What others have committed meanwhile is looked
//     at under the lock: a fact of which the nearest have changed is decided again.
//
// Without a model the messages themselves are the facts, but for greetings and small
// talk. They are told apart by rules, and the answer says so under Degraded.
//
// # What fails
//
// What a provider fails at costs as little as can be, and every answer names it under
// Degraded.
//
//	extraction fails               no fact is added, and no error is returned
//	a decision fails               that fact is left out
//	a text is not embedded         that fact is left out; with StoreUnembedded it is kept
//	                               without a vector, and found by its words
//	the graph cannot be made       the facts are stored without it
//
// The history of a fact is written in the commit of its change, so that there is none in
// which the history is missing. Errors are those of package engine; [ClassOf] names them
// as other memories of facts do.
//
// # Goroutines
//
// A Facts is safe for concurrent use. Every method takes a context and stops when it
// ends. [Facts.Async] has each method in a form that returns at once.
package facts
