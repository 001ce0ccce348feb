// goka at its defaults but for where a new group begins: a processor without a table.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/IBM/sarama"
	"github.com/lovoo/goka"
	"github.com/lovoo/goka/codec"
)

func bill(ctx goka.Context, order any) {
	ctx.Emit("invoices", ctx.Key(), strings.ToUpper(order.(string)))
}

func main() {
	servers := []string{os.Getenv("BOOTSTRAP_SERVERS")}
	config := goka.DefaultConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	goka.ReplaceGlobalConfig(config)
	text := new(codec.String)
	graph := goka.DefineGroup("billing", goka.Input("orders", text, bill), goka.Output("invoices", text))
	processor, err := goka.NewProcessor(servers, graph)
	check(err)
	check(processor.Run(context.Background()))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
