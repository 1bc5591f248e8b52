// Package api has the operations of a database that memdbctl, memdbd and their clients offer. Each is one value: its
// name, its route, what it takes, what it answers, and the function that runs it. The commands of memdbctl, the routes
// of memdbd and their documents follow from these values.
//
// The tags of a request describe its fields:
//
//	path:"key"    a part of the path of the route, and an argument of the command
//	query:"limit" a parameter of the query, and the flag --limit; an underscore of a name is a dash of the flag
//	body:"json"   the body of the route, as it is or as a struct; an argument of the command
//	body:"object" the body of the route: the fields of an embedded struct, each of them a flag of the command
//	body:"items"  with the type of a Lines: a body of JSON lines, and a file that an argument or a flag of the command names
//	json:"model"  the name of a field of such a struct; without a help the command has no such flag
//	flag:"cost"   another name of the flag; "-": the command has no such flag
//	arg:"KEY"     the name of an argument; [KEY] can be left out, and KEY... is all arguments that are left
//	stdin:"100"   for the argument -, the value is read from the input, up to so many bytes
//	unit:"tokens" what the value of a flag is called in the help of the command
//	help:"…"      what the field means: a sentence without its first capital and its full stop
//	enum:"a,b"    all values that it can have
//	default:"1"   its value where it is left out
//	min:"1" max:"9"  the range of a whole number, or its least value alone
//	required:"true"  it cannot be left out
//
// A field without a name is not of the request: its caller sets it.
package api
