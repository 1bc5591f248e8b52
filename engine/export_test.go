package engine

// OpenAsItIs is Open of a database in which what has expired stays, as tests of older
// layouts compare all that there is.
func OpenAsItIs(dir string, o *Options) (*DB, error) {
	return open(dir, o, &tuning{keepsExpired: true})
}
