//go:build unix

package main

const noMappedFiles = ""
