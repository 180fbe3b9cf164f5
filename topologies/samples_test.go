package topologies

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSamples(t *testing.T) {
	entries, err := os.ReadDir("samples")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 {
		t.Fatal("no samples")
	}
	for _, e := range entries {
		top, err := ReadFile(filepath.Join("samples", e.Name()), ReadOptions{Note: func(s string) { t.Errorf("%s: note %q", e.Name(), s) }})
		if err != nil {
			t.Error(err)
			continue
		}
		if !top.Connected() {
			t.Errorf("%s is not connected", e.Name())
		}
	}
}
