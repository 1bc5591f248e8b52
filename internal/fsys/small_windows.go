package fsys

// noFollow is nothing here: what a link is was seen before the file is opened.
const noFollow = 0
