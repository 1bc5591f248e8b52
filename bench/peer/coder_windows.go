package peer

var coder = VectorOpener{Name: "coder/hnsw", Missing: "it does not build on Windows"}
