// Command cri calls a container runtime by the Container Runtime Interface, as crictl does, which Debian has not:
//
//	cri SOCKET METHOD < request.json
//
// METHOD is one of the runtime's or image service's, such as RunPodSandbox. The request on standard input and the response on
// standard output are JSON with the names of the interface's .proto file; an empty input is an empty request.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// timeout is longer than a runtime waits for a container that does not stop.
const timeout = time.Minute

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cri:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: cri SOCKET METHOD < request.json")
	}
	method, err := find(args[1])
	if err != nil {
		return err
	}
	request, response := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		if err := protojson.Unmarshal(data, request); err != nil {
			return fmt.Errorf("read request of %s: %w", args[1], err)
		}
	}
	conn, err := grpc.NewClient("unix://"+args[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	path := fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
	if err := conn.Invoke(ctx, path, request, response, grpc.WaitForReady(true)); err != nil {
		return fmt.Errorf("%s: %w", args[1], err)
	}
	data, err = protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(response)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", data)
	return err
}

// find looks a method up in both services.
func find(name string) (protoreflect.MethodDescriptor, error) {
	services := (&cri.VersionRequest{}).ProtoReflect().Descriptor().ParentFile().Services()
	for i := range services.Len() {
		method := services.Get(i).Methods().ByName(protoreflect.Name(name))
		if method != nil && !method.IsStreamingServer() {
			return method, nil
		}
	}
	return nil, fmt.Errorf("no method %q that answers once", name)
}
