// Package guestinit is what runs inside a guest of package guest: the first
// process of its kernel. It mounts the usual file systems, loads the modules
// that were packed, runs one command, and sends its output, a directory of
// results and its exit status out, as frames written to an I/O port of the
// virtual machine. It is no general init, and nothing of it runs on a host.
//
// One goroutine, fixed to its thread, owns the port; the others hand frames to
// it through a channel.
package guestinit

// Where the parts lie inside the guest's root, and how it is told that it is one.
const (
	JobFile   = "/guest.json"
	ModuleDir = "/modules" // *.ko, inserted in the order of their names
	// EnvName is set to 1 on the kernel's command line, which hands it to init.
	EnvName = "CHURNBED_GUEST"
	// Port is the I/O port of the machine's debug console, which passes bytes
	// on as they are, needs no driver, and is never used by the kernel.
	Port = 0xe9
	// InterruptByte, received on the serial line, interrupts the command.
	InterruptByte = 0x03
)

// Job is what the guest is to do.
type Job struct {
	// Commands are run one after another while they end with 0: each an
	// absolute path, or a name in /bin, and its arguments.
	Commands [][]string `json:"commands"`
	Env      []string   `json:"env"` // KEY=value, added to PATH and HOME
	Dir      string     `json:"dir"` // working directory
	Out      string     `json:"out"` // directory sent out after the last command; "" for none
}
