//go:build !unix

package main

const noMappedFiles = "files are mapped on Unix only"
