package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ulikunitz/xz"
)

// maxBytes bounds a file, unpacked, so that a wrong or hostile one ends in an
// error and not in the machine's memory.
const maxBytes = 1 << 29

// ErrMalformed is wrapped by the errors about a file's content.
var ErrMalformed = errors.New("malformed file")

// malformed is an error at a place of a file.
func malformed(name string, line, col int, format string, args ...any) error {
	return fmt.Errorf("%s:%d:%d: %w: %w", name, line, col, ErrMalformed, fmt.Errorf(format, args...))
}

// place returns line and column (bytes, both from 1) of offset in data.
func place(data []byte, offset int) (line, col int) {
	offset = min(max(offset, 0), len(data))
	before := data[:offset]
	return 1 + bytes.Count(before, []byte{'\n'}), offset - bytes.LastIndexByte(before, '\n')
}

var xzMagic = []byte{0xfd, '7', 'z', 'X', 'Z', 0}

// ReadFile returns the content of a file, unpacked where it is an .xz file.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read foreign file: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	return readAll(f, path)
}

func readAll(r io.Reader, name string) ([]byte, error) {
	data, err := limited(r, name)
	if err != nil || !bytes.HasPrefix(data, xzMagic) {
		return data, err
	}
	// The declared dictionary is allocated at once, so it is bounded too.
	u, err := xz.ReaderConfig{DictCap: 1 << 26}.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w: %w", name, ErrMalformed, err)
	}
	text, err := limited(u, name)
	if err != nil {
		return nil, fmt.Errorf("unpack %w", err)
	}
	return text, nil
}

func limited(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		line, column := place(data, len(data))
		return nil, fmt.Errorf("%s:%d:%d: %w: after %d bytes: %w", name, line, column, ErrMalformed, len(data), err)
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("read %s: %w: larger than %d MiB", name, ErrMalformed, maxBytes>>20)
	}
	return data, nil
}
