// Package arch holds the rules of the house as tests: who may import whom, which
// names are used only behind their seams, and what every package says of itself.
//
// The tests parse the files of the tree in process. They do not ask go list,
// whose answers the test cache may keep after a file has changed, and they see
// the files of every platform, not only of the one that runs them. Each rule is
// a function over parsed files, and has a table of small made-up sources beside
// it that shows it fail.
package arch
