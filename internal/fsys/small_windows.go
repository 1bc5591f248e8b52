package fsys

// noFollow is nothing here: what a link is was seen before the file is opened.
const noFollow = 0

// hasModes is not so here: lists of rights, which a folder takes from the one it lies in, say who
// may read it.
const hasModes = false
