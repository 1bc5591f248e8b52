// Package messages reads chat messages in the forms in which APIs and frameworks write them.
//
// # Forms
//
// Read takes one message of OpenAI's chat (also function_call, custom tools, refusal, audio and
// reasoning_content), one item of OpenAI's Responses, one message of Anthropic, Gemini, Bedrock
// Converse, the Vercel AI SDK (model messages, UI messages with parts or toolInvocations),
// LangChain (by type, {"type","data"}, or {"lc","kwargs"}) and Ollama. All of them become one
// Message: a role, a text, a list of parts, calls of tools, and the other keys as they came.
//
// # What is unknown
//
// Values are never decoded and written again: parts, calls and other keys keep their bytes. A part
// or a key that the package has no rule for is kept, is part of Content and of the tokens that are
// counted, and is named by Unknown. Read fails only for JSON that is malformed.
//
// # Rules instead of lists
//
// What a part is follows from the words in its type, or in the key that replaces a type
// ("toolUse", "functionResponse"), compared without case, "_" and "-": see kindOf. So a spelling
// that did not exist when this was written is mostly understood. Of parts that are not understood,
// Pairs compares the values that look like IDs.
//
// # Pairs
//
// A model refuses the result of a call that it is not shown, so who cuts a conversation keeps each
// call with its results. Pairs finds them: by ID, by order where there is no ID, and of unknown
// parts by the IDs that two of them share.
//
// Work on a message is bounded by its size. Nesting beyond maxNesting is not looked into.
package messages
