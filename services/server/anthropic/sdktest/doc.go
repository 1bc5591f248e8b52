// Package sdktest runs Anthropic's Go SDK, with nothing but its base URL changed, against the memory
// stores of memdb. It is a module of its own, so that a program which links memdb downloads no SDK.
package sdktest
