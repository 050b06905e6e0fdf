package org.ep4j.cli.text;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.PrettyPrinter;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.util.DefaultIndenter;
import com.fasterxml.jackson.core.util.DefaultPrettyPrinter;
import java.io.IOException;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Trees of maps, iterables, strings, numbers, booleans and number arrays as JSON text. NaN is null.
 */
public final class Json {
  private Json() {}

  /** The tree as indented JSON with a final newline. */
  public static String text(Object tree) {
    DefaultPrettyPrinter printer = new DefaultPrettyPrinter();
    printer.indentObjectsWith(new DefaultIndenter("  ", "\n"));
    return text(tree, printer) + "\n";
  }

  /** The tree as JSON in one line without a newline. */
  public static String line(Object tree) {
    return text(tree, null);
  }

  private static String text(Object tree, @Nullable PrettyPrinter printer) {
    StringWriter text = new StringWriter();
    try (JsonGenerator generator = new JsonFactory().createGenerator(text)) {
      if (printer != null) {
        generator.setPrettyPrinter(printer);
      }
      write(generator, tree);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return text.toString();
  }

  /**
   * The tree of one JSON value: maps, lists, strings, {@link Double} for every number, booleans and
   * null.
   *
   * @throws IOException if the text is anything else, or an object has two fields of one name
   */
  public static @Nullable Object parse(String text) throws IOException {
    JsonFactory factory =
        JsonFactory.builder().enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION).build();
    try (JsonParser in = factory.createParser(text)) {
      in.nextToken();
      Object tree = read(in);
      if (in.nextToken() != null) {
        throw new IOException("text behind the end of the JSON value");
      }
      return tree;
    }
  }

  private static @Nullable Object read(JsonParser in) throws IOException {
    return switch (in.currentToken()) {
      case null -> throw new IOException("the text ends before the JSON value");
      case VALUE_NULL -> null;
      case VALUE_TRUE -> true;
      case VALUE_FALSE -> false;
      case VALUE_STRING -> in.getText();
      case VALUE_NUMBER_INT, VALUE_NUMBER_FLOAT -> in.getDoubleValue();
      case START_ARRAY -> {
        List<@Nullable Object> items = new ArrayList<>();
        while (in.nextToken() != JsonToken.END_ARRAY) {
          items.add(read(in));
        }
        yield items;
      }
      case START_OBJECT -> {
        Map<String, @Nullable Object> fields = new LinkedHashMap<>();
        while (in.nextToken() == JsonToken.FIELD_NAME) {
          String name = in.currentName();
          in.nextToken();
          fields.put(name, read(in));
        }
        yield fields;
      }
      default -> throw new IOException("unexpected " + in.currentToken());
    };
  }

  private static void write(JsonGenerator out, @Nullable Object node) throws IOException {
    switch (node) {
      case null -> out.writeNull();
      case Map<?, ?> map -> {
        out.writeStartObject();
        for (Map.Entry<?, ?> entry : map.entrySet()) {
          out.writeFieldName(String.valueOf(entry.getKey()));
          write(out, entry.getValue());
        }
        out.writeEndObject();
      }
      case Iterable<?> items -> {
        out.writeStartArray();
        for (Object item : items) {
          write(out, item);
        }
        out.writeEndArray();
      }
      case double[] numbers -> out.writeArray(numbers, 0, numbers.length);
      case Boolean flag -> out.writeBoolean(flag);
      case Double number when number.isNaN() -> out.writeNull();
      case Double number -> out.writeNumber(number);
      case Number number -> out.writeNumber(number.longValue());
      default -> out.writeString(node.toString());
    }
  }
}
