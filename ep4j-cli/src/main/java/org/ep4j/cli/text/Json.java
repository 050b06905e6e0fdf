package org.ep4j.cli.text;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.util.DefaultIndenter;
import com.fasterxml.jackson.core.util.DefaultPrettyPrinter;
import java.io.IOException;
import java.io.StringWriter;
import java.io.UncheckedIOException;
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
    StringWriter text = new StringWriter();
    try (JsonGenerator generator = new JsonFactory().createGenerator(text)) {
      generator.setPrettyPrinter(printer);
      write(generator, tree);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return text.append('\n').toString();
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
