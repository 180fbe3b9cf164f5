package fabric

import (
	"errors"
	"fmt"
	"time"

	"churnbed/emulator/kernel"
	"churnbed/emulator/netns"
)

// closeTimeout bounds the wait for the kernel, which frees namespaces in the
// background.
const closeTimeout = 10 * time.Second

// Close stops the relay, lets go of all namespaces at once, and waits until
// the kernel has freed the interfaces in them. A namespace in which a process
// still runs lives on with it. A second Close does nothing.
func (f *Fabric) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	var errs []error
	if f.back != nil {
		errs = append(errs, f.back.close())
	}
	mark, err := f.newMarker()
	errs = append(errs, err)
	for i := range f.nodes {
		nd := &f.nodes[i]
		if nd.conn != nil {
			errs = append(errs, nd.conn.Close())
		}
		if nd.udp != nil {
			errs = append(errs, nd.udp.Close())
		}
	}
	for i := range f.nodes {
		if f.nodes[i].ns != nil {
			errs = append(errs, f.nodes[i].ns.Close())
		}
	}
	if mark != nil {
		errs = append(errs, mark.wait())
	}
	if f.wireC != nil {
		errs = append(errs, f.wireC.Close())
	}
	if f.wire != nil {
		errs = append(errs, f.wire.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close fabric: %w", err)
	}
	return nil
}

// marker is a namespace let go after all others, with one veth end left
// behind in the wire namespace. The kernel frees namespaces in the order in
// which they were let go, so when this end is gone, the others are.
type marker struct {
	ns   *netns.Handle
	conn *kernel.Conn // let go as late as the nodes' are
	wire *kernel.Conn
	id   int32
}

func (f *Fabric) newMarker() (*marker, error) {
	if f.wireC == nil {
		return nil, nil
	}
	m := &marker{wire: f.wireC, id: wireIndex(len(f.links), 0)}
	var err error
	if m.ns, err = netns.New(); err != nil {
		return nil, err
	}
	if m.conn, err = kernel.Open(m.ns, "marker"); err != nil {
		return nil, errors.Join(err, m.ns.Close())
	}
	b := f.wireC.Batch()
	b.Veth(
		kernel.End{NS: f.wire, Name: "marker", Index: m.id, MAC: mac(0x0a, 0, 0)},
		kernel.End{NS: m.ns, Name: "marker", Index: 2, MAC: mac(0x0a, 0, 1)}, MTU)
	if err := b.Flush(); err != nil {
		return nil, errors.Join(err, m.conn.Close(), m.ns.Close())
	}
	return m, nil
}

func (m *marker) wait() error {
	if err := errors.Join(m.conn.Close(), m.ns.Close()); err != nil {
		return err
	}
	for end := time.Now().Add(closeTimeout); ; time.Sleep(time.Millisecond) {
		there, err := m.wire.HasLink(m.id)
		if err != nil || !there {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("kernel has not freed the namespaces within %v", closeTimeout)
		}
	}
}
