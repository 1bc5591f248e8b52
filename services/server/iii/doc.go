// Package iii serves the functions of package functions as a worker of an iii engine, over WebSocket.
//
// A worker connects to an engine, says which functions it has, and answers their invocations until it
// ends. It comes back by itself when the connection or the engine is gone: after a second, and then after
// twice as long each time, up to half a minute. It then names the worker that it was, with the token that the
// engine gave it, so that the engine knows it again.
//
// # Frames
//
// A frame is a JSON object in a text message, whose type is one of
//
//	workerregistered {worker_id, reattach_token}                  from the engine, on connecting
//	reattach {previous_worker_id, reattach_token}                 to the engine, first, on coming back
//	registerfunction {id, description, namespace}                 to the engine, for each function
//	registertrigger {id, trigger_type, function_id, config}       to the engine, with Options.Cron
//	triggerregistrationresult {id, error}                         from the engine
//	registrationrejected {code, function_id, worker_name}         from the engine
//	invokefunction {invocation_id, function_id, data, action}     from the engine; a void one has no invocation_id
//	                                                              and no answer. To the engine, void, for
//	                                                              engine::workers::register
//	invocationresult {invocation_id, function_id, result, error}  to the engine
//	ping, pong                                                    either way
//
// Other types, binary messages and what is no JSON are passed over.
package iii
