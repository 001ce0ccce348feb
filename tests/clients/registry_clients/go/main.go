// Franz-go's client of a registry and its serializers, and Confluent's: a line for each step.
// The argument is the address of the registry.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/avrov2"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/jsonschema"
	"github.com/twmb/franz-go/pkg/sr"
)

const order = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}`
const wrong = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"boolean"}]}`

type Order struct {
	ID int64 `json:"id" avro:"id"`
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	franz(os.Args[1])
	confluent(os.Args[1])
}

func franz(url string) {
	ctx := context.Background()
	client := must(sr.NewClient(sr.URLs(url)))
	created := must(client.CreateSchema(ctx, "franz-value", sr.Schema{Schema: order}))
	fmt.Println("franz created:", created.Version, created.Schema.Schema == order)
	fmt.Println("franz by id:", must(client.SchemaByID(ctx, created.ID)).Schema == order)
	fit := must(client.CheckCompatibility(ctx, "franz-value", -1, sr.Schema{Schema: wrong}))
	fmt.Println("franz fits:", fit.Is)
	_, err := client.CreateSchema(ctx, "franz-value", sr.Schema{Schema: wrong})
	var refused *sr.ResponseError
	fmt.Println("franz refused:", errors.As(err, &refused), refused.StatusCode, refused.ErrorCode)
	var codec sr.Serde
	codec.Register(created.ID, Order{},
		sr.EncodeFn(func(value any) ([]byte, error) { return json.Marshal(value) }),
		sr.DecodeFn(func(data []byte, into any) error { return json.Unmarshal(data, into) }))
	var read Order
	if err := codec.Decode(must(codec.Encode(Order{ID: 7})), &read); err != nil {
		panic(err)
	}
	fmt.Println("franz read:", read.ID)
	level := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, "franz-value")[0]
	fmt.Println("franz level:", level.Level, level.Err)
	fmt.Println("franz deleted:", must(client.DeleteSubject(ctx, "franz-value", sr.SoftDelete)))
}

func confluent(url string) {
	client := must(schemaregistry.NewClient(schemaregistry.NewConfig(url)))
	avro := must(avrov2.NewSerializer(client, serde.ValueSerde, avrov2.NewSerializerConfig()))
	data := must(avro.Serialize("avro", &Order{ID: 8}))
	var read Order
	reader := must(avrov2.NewDeserializer(must(schemaregistry.NewClient(schemaregistry.NewConfig(url))), serde.ValueSerde, avrov2.NewDeserializerConfig()))
	if err := reader.DeserializeInto("avro", data, &read); err != nil {
		panic(err)
	}
	fmt.Println("confluent avro:", read.ID)

	text := must(jsonschema.NewSerializer(client, serde.ValueSerde, jsonschema.NewSerializerConfig()))
	data = must(text.Serialize("json", &Order{ID: 9}))
	var second Order
	textReader := must(jsonschema.NewDeserializer(client, serde.ValueSerde, jsonschema.NewDeserializerConfig()))
	if err := textReader.DeserializeInto("json", data, &second); err != nil {
		panic(err)
	}
	fmt.Println("confluent json:", second.ID)

	fmt.Println("confluent subjects:", must(client.GetAllSubjects()))
	fmt.Println("confluent fits:", must(client.TestCompatibility("avro-value", -1, schemaregistry.SchemaInfo{Schema: wrong})))
	_, err := client.Register("avro-value", schemaregistry.SchemaInfo{Schema: wrong}, false)
	fmt.Println("confluent refused:", err != nil)
}
