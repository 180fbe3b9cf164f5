package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What is kept replaces what was, leaves nothing else behind, and is found
// again; that nothing was kept is no error, that it cannot be is one.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	h := &host{env: Env{State: filepath.Join(dir, "3.state")}}
	if b, err := recall(h.env.State); b != nil || err != nil {
		t.Errorf("before anything was kept: %q, %v", b, err)
	}
	for _, s := range []string{"one", "and another", ""} {
		if err := h.keep([]byte(s)); err != nil {
			t.Fatal(err)
		}
		if b, err := recall(h.env.State); string(b) != s || err != nil {
			t.Errorf("kept %q, found %q, %v", s, b, err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v %v", files, err)
	}
	h.env.State = filepath.Join(dir, "none", "3.state")
	if h.keep(nil) == nil {
		t.Error("no folder, no error")
	}
	h.env.State = ""
	if h.keep(nil) == nil {
		t.Error("no file, no error")
	}
}

// The folder is synced after the new state has its name, and a folder that
// cannot be is an error: nothing that relies on the state may be sent.
func TestReplaceSyncsFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "3.state")
	failed := errors.New("no such luck")
	synced := 0
	err := replace(file, []byte("new"), func(folder string) error {
		synced++
		if b, err := os.ReadFile(file); string(b) != "new" || err != nil || folder != filepath.Dir(file) {
			t.Errorf("%s synced with state %q, %v", folder, b, err)
		}
		return failed
	})
	if synced != 1 || !errors.Is(err, failed) {
		t.Errorf("synced %d times, %v", synced, err)
	}
	if err := syncFolder(filepath.Dir(file)); err != nil {
		t.Error(err)
	}
	if syncFolder(filepath.Join(filepath.Dir(file), "none")) == nil {
		t.Error("no folder, no error")
	}
}
