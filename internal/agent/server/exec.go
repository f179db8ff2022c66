package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// ExecRequest says which command is to be run. Its JSON is the first line of the request's body; with Input what follows is the command's
// standard input.
type ExecRequest struct {
	Container string   `json:"container"` // default: the pod's first
	Command   []string `json:"command"`
	Input     bool     `json:"input,omitempty"`
}

// The answer is a sequence of parts: a byte that says what it is, the length of the rest in four (big endian), and the rest. The last one is the end.
const (
	partStdout = 1
	partStderr = 2
	partEnd    = 3 // the JSON of execEnd
)

// execEnd is how a command ended.
type execEnd struct {
	Code  int    `json:"code"`
	Error string `json:"error,omitempty"` // instead of a code: why it did not end by itself
}

// maxPart bounds what of an answer is held in memory at once.
const maxPart = 1 << 20

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	pod, err := s.find(r.PathValue("namespace"), r.PathValue("name"))
	if err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	// Otherwise the first part of the answer would end the reading of what the command gets.
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	body := bufio.NewReader(r.Body)
	req, err := readExecRequest(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	name, err := containerOf(pod, req.Container)
	if err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	parts := &partWriter{w: w, out: http.NewResponseController(w)}
	command := container.Command{Args: req.Command, Stdout: stream{parts, partStdout}, Stderr: stream{parts, partStderr}}
	stop := func() {}
	if req.Input {
		command.Stdin = body
		stop = parts.keepAlive()
	}
	code, err := s.cfg.Exec(r.Context(), pod.UID, name, command)
	stop()
	end := execEnd{Code: code}
	switch {
	case err != nil && !parts.begun:
		refuse(w, http.StatusConflict, err)
		return
	case err != nil:
		end.Error = err.Error()
	}
	data, err := json.Marshal(end)
	if err == nil {
		_ = parts.part(partEnd, data) // whoever asked is gone
	}
}

// readExecRequest reads the first line of a request.
func readExecRequest(r *bufio.Reader) (req ExecRequest, err error) {
	var line []byte
	for more := true; more; {
		var piece []byte
		piece, err = r.ReadSlice('\n')
		line = append(line, piece...)
		more = errors.Is(err, bufio.ErrBufferFull)
		if len(line) > maxBody {
			return req, fmt.Errorf("the command is larger than %d bytes", maxBody)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return req, err
	}
	if err := json.Unmarshal(line, &req); err != nil {
		return req, fmt.Errorf("read the command: %w", err)
	}
	if len(req.Command) == 0 {
		return req, errors.New("no command")
	}
	return req, nil
}

// partWriter writes the parts of an answer.
type partWriter struct {
	mu    sync.Mutex
	w     io.Writer
	out   *http.ResponseController
	begun bool
}

// aliveEvery is how often it is tried whether somebody still listens.
const aliveEvery = time.Second

// keepAlive writes empty parts until the function that it returns is called. A server that waits for a request's body notices only by writing that
// who sent it is gone, and then ends the request's context.
func (p *partWriter) keepAlive() (stop func()) {
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_ = p.part(partStdout, nil) // then the context ends
			}
		}
	})
	return func() {
		close(done)
		writer.Wait()
	}
}

// part writes one part.
func (p *partWriter) part(kind byte, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(data)))
	if _, err := p.w.Write(append(head, data...)); err != nil {
		return err
	}
	return p.out.Flush()
}

// stream writes parts of one kind.
type stream struct {
	to   *partWriter
	kind byte
}

func (s stream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxPart)
		if err := s.to.part(s.kind, rest[:n]); err != nil {
			return len(p) - len(rest), err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// Exec runs a command in a container and returns its exit code. It ends when the command has, or when ctx does, which ends the command. What of
// stdin, which is none if it is nil, is read by then, nobody knows.
func (c *Client) Exec(ctx context.Context, namespace, name string, req ExecRequest, streams Streams) (code int, err error) {
	req.Input = streams.Stdin != nil
	data, err := json.Marshal(req)
	if err != nil {
		return 0, err
	}
	var in io.Reader = bytes.NewReader(append(data, '\n'))
	if req.Input {
		in = io.MultiReader(in, streams.Stdin)
	}
	body, err := c.ask(ctx, http.MethodPost, "/exec/"+namespace+"/"+name, nil, in)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	end, err := streams.copy(bufio.NewReader(body))
	switch {
	case err == nil && end.Error != "":
		return 0, errors.New(end.Error)
	case err != nil && ctx.Err() != nil:
		return 0, context.Cause(ctx)
	}
	return end.Code, err
}

// Streams are those of a command.
type Streams struct {
	Stdin          io.Reader // nil is none
	Stdout, Stderr io.Writer // required
}

// copy writes what comes to its stream, until the end.
func (s Streams) copy(r io.Reader) (end execEnd, err error) {
	for {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return end, fmt.Errorf("the answer ends before the command: %w", err)
		}
		size := binary.BigEndian.Uint32(head[1:])
		var to io.Writer
		switch head[0] {
		case partStdout:
			to = s.Stdout
		case partStderr:
			to = s.Stderr
		case partEnd:
			data := make([]byte, min(size, maxPart))
			if _, err := io.ReadFull(r, data); err != nil {
				return end, fmt.Errorf("the answer ends before the command: %w", err)
			}
			return end, json.Unmarshal(data, &end)
		default:
			return end, fmt.Errorf("the answer has a part of kind %d", head[0])
		}
		if _, err := io.CopyN(to, r, int64(size)); err != nil {
			return end, err
		}
	}
}
