package prober

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// health asks for grpc.health.v1.Health/Check, by hand: two messages of one field each over HTTP/2 are not worth a gRPC library
// (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md and doc/health-checking.md).
func (c clients) health(ctx context.Context, t target) (answer, error) {
	address, err := t.pod().Address("", intstr.FromInt32(t.probe.GRPC.Port))
	if err != nil {
		return answer{}, err
	}
	service := ""
	if t.probe.GRPC.Service != nil {
		service = *t.probe.GRPC.Service
	}
	body := frame(healthRequest(service))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/grpc.health.v1.Health/Check", bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "User-Agent": {userAgent}}
	if left := within(ctx); left > 0 {
		const most = 99_999_999 // it has eight digits
		req.Header.Set("Grpc-Timeout", strconv.FormatInt(min(left.Milliseconds()+1, most), 10)+"m")
	}
	resp, err := c.grpc.Do(req)
	if err != nil {
		return failed("%v", err), nil
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return failed("HTTP status %d", resp.StatusCode), nil
	}
	message, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return failed("read answer: %v", err), nil
	}
	code, text := resp.Trailer.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Message")
	if code == "" { // an answer without a message has them in the header
		code, text = resp.Header.Get("Grpc-Status"), resp.Header.Get("Grpc-Message")
	}
	if code != "0" {
		return failed("%s", statusText(code, text, service)), nil
	}
	status, err := healthResponse(message)
	if err != nil {
		return failed("read answer: %v", err), nil
	}
	if status != serving {
		return failed("service %q is %s", service, statusName(status)), nil
	}
	return answer{ok: true}, nil
}

// statusText explains a status that is not OK.
func statusText(code, text, service string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		text = plain
	}
	switch code {
	case "":
		return "the answer has no gRPC status"
	case "5":
		return fmt.Sprintf("the server knows no service %q", service)
	case "12":
		return "the server does not implement grpc.health.v1.Health"
	}
	return fmt.Sprintf("gRPC status %s: %s", code, shorten([]byte(text)))
}

// serving is the status of a service that serves, in enum ServingStatus.
const serving = 1

func statusName(status uint64) string {
	names := []string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}
	if status < uint64(len(names)) {
		return names[status]
	}
	return "in status " + strconv.FormatUint(status, 10)
}

// frame makes a message of gRPC: not compressed, its length, itself.
func frame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// Wire types of protocol buffers.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// healthRequest encodes HealthCheckRequest: field 1 is the service.
func healthRequest(service string) []byte {
	if service == "" {
		return nil
	}
	b := binary.AppendUvarint([]byte{1<<3 | wireBytes}, uint64(len(service)))
	return append(b, service...)
}

var errMessage = errors.New("it is no HealthCheckResponse")

// healthResponse decodes the framed HealthCheckResponse: field 1 is the status, and other fields are skipped.
func healthResponse(b []byte) (status uint64, err error) {
	if len(b) < 5 || b[0] != 0 || uint64(binary.BigEndian.Uint32(b[1:])) != uint64(len(b)-5) {
		return 0, errMessage
	}
	b = b[5:]
	varint := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err = errMessage
			return 0
		}
		b = b[n:]
		return v
	}
	skip := func(n uint64) {
		if n > uint64(len(b)) {
			err = errMessage
			return
		}
		b = b[n:]
	}
	for len(b) > 0 && err == nil {
		switch tag := varint(); tag & 7 {
		case wireVarint:
			if v := varint(); tag>>3 == 1 {
				status = v
			}
		case wireFixed64:
			skip(8)
		case wireBytes:
			skip(varint())
		case wireFixed32:
			skip(4)
		default:
			err = errMessage
		}
	}
	return status, err
}
