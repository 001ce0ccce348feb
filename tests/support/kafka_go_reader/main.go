// Reads partition 0 of a topic from its beginning to its end with segmentio's kafka-go, and prints offset, key and value
// of each record, a line each. It fails after a time in which a broker that serves would long have answered.
//
//	kafka-go-reader <bootstrap> <topic>
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	address, topic := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	leader, err := kafka.DialLeader(ctx, "tcp", address, topic, 0)
	check(err)
	end, err := leader.ReadLastOffset()
	check(err)
	leader.Close()

	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{address}, Topic: topic, MinBytes: 1, MaxBytes: 10e6, MaxWait: 100 * time.Millisecond})
	defer reader.Close()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for next := int64(0); next < end; {
		message, err := reader.ReadMessage(ctx)
		check(err)
		fmt.Fprintln(out, message.Offset, string(message.Key), string(message.Value))
		next = message.Offset + 1
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
