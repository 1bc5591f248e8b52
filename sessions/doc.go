// Package sessions keeps conversations: the messages of a run in their order, with markers
// where older ones were summarised.
//
// # Model
//
// A session belongs to an owner and has the name of a run: the memories of a conversation
// have that run. A message has an ID of its own, so that a repeated "yes" is there twice,
// and refers to a memory by its Seq, or carries its own text. A message whose memory is gone
// is an orphan. Its text is that of the memory's history; before the history of a memory that
// ageing has taken goes, the message takes the text in. So what was said stays said, unless a
// caller has deleted the memory or given it an end: that text is gone with its history.
//
// A message may call tools and bring their results, in the forms of OpenAI and of Anthropic. A
// call and its results are never parted: by a window, a trim, a compaction or a repair.
//
// Messages have positions. A content is a list of messages and markers under a number; a
// session shows one content at a time, from its first position to its next. An append adds
// to the content. A save or a repair writes another content aside, in commits of bounded
// size, and then one commit switches the session over. What a session does not show any more
// is removed behind, once nobody reads a state that shows it.
//
// A marker stands before a position. It says that the messages before it are summarised in
// an archive, which is a memory; a load begins at the newest marker.
//
// # Keys
//
//	S | owner | run                               → the session as it is now
//	G | owner | run | LSN                         → the session as it was from that commit on
//	T | owner | run | content | position | LSN    → a message
//	B | owner | run | content | position | LSN | n → a marker
//	J | owner | run | content | hash of an ID     → the position of the message with that ID
//	U | owner | list | time | run                 → nothing: the sessions of a list, newest first
//	W | owner | run | LSN | content               → what is to be removed
//
// The LSN in a key is that of the commit that wrote it: who reads an older state skips what
// is younger. G is written when a session changes other than by an append, so that appends
// do not pay for it; what an append changes follows from the messages.
package sessions
