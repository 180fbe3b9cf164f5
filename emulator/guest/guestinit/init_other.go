//go:build !(linux && amd64)

package guestinit

// Main returns: guests are made for linux/amd64 only.
func Main() {}
