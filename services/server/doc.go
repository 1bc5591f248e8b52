// Package server answers requests over HTTP for one database.
//
// It knows what every dialect needs: who asks, of which scope, how much at once, for how long and
// how large, what is logged and counted, and how to end without losing an answer. What is asked is
// the matter of a [Dialect]: a family of routes with its own way to tell an error.
//
// # Keys
//
// A server without keys listens on a loopback address only, and whoever reaches it may do all. As
// soon as there is a key, each request needs one, as Authorization: Bearer KEY, Authorization:
// Token KEY or X-Api-Key: KEY. A key is bound to scopes or is one of an administrator. What is
// outside of its scopes does not exist for it: an ID of another scope gets the answer of an ID
// that nobody has.
//
// # Browsers
//
// A page of a browser may send requests to a loopback address, too. So a request that comes over a
// loopback address must name a loopback host or one of [Options.Hosts], and one with an Origin must
// come from the host that it asks or from one of [Options.Origins]. The pages of those may read the answers, and send
// any method and headers (CORS). Cookies and other credentials of the browser are not used.
package server
