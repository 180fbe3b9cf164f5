package guest

import (
	"os/exec"
	"runtime"
)

// startFixed starts cmd from a thread that lives until stop is called: the
// kernel sends the parent-death signal when the starting thread ends, not the
// process.
func startFixed(cmd *exec.Cmd) (stop func(), err error) {
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- cmd.Start()
		<-ended
	}()
	err = <-started
	if err != nil {
		close(ended)
	}
	return func() { close(ended) }, err
}
