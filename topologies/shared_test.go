package topologies

import (
	"os"
	"path/filepath"
	"testing"
)

// sharedData returns the path of reference data that lies beside the checkout
// and is no part of it.
func sharedData(t testing.TB, elem ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
	path := filepath.Join(append([]string{dir, "..", "shared", "data"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("reference data is not there: %v", err)
	}
	return path
}
