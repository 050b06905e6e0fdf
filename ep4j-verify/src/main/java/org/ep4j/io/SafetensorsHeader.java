package org.ep4j.io;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.io.HeaderScanner.Malformed;
import org.ep4j.tensor.DType;
import org.jspecify.annotations.Nullable;

/**
 * The checked header of a file: every tensor is inside the data and has as many bytes as its shape
 * needs, and together the tensors fill the data without holes and overlaps.
 *
 * @param metadata the strings of {@code __metadata__}
 * @param entries the tensors by name, in the order of the header
 */
record SafetensorsHeader(Map<String, String> metadata, Map<String, Entry> entries) {
  static final String METADATA = "__metadata__";
  private static final int MAX_DIMENSIONS = 3;

  /**
   * One tensor.
   *
   * @param dtype element type
   * @param shape extents; a scalar of the file has the shape [1]
   * @param begin first byte, counted from the end of the header
   * @param end byte after the last
   */
  record Entry(DType dtype, long[] shape, long begin, long end) {}

  /**
   * Reads and checks a header.
   *
   * @param file name for messages
   * @param json the header's bytes
   * @param dataBytes bytes of the file after the header
   */
  static SafetensorsHeader parse(String file, ByteBuffer json, long dataBytes) {
    Parser parser = new Parser(file);
    try {
      parser.parse(new HeaderScanner(json));
    } catch (Malformed e) {
      throw new SafetensorsException(file, parser.tensor, "invalid header: " + e.getMessage());
    }
    checkCoverage(file, parser.entries, dataBytes);
    return new SafetensorsHeader(parser.metadata, parser.entries);
  }

  private static final class Parser {
    final String file;
    final Map<String, String> metadata = new LinkedHashMap<>();
    final Map<String, Entry> entries = new LinkedHashMap<>();
    @Nullable String tensor;

    Parser(String file) {
      this.file = file;
    }

    void parse(HeaderScanner in) throws Malformed {
      in.expect('{');
      boolean metadataSeen = false;
      if (!in.take('}')) {
        do {
          String name = in.string();
          if (entries.containsKey(name) || (metadataSeen && name.equals(METADATA))) {
            throw new SafetensorsException(file, name, "the name occurs twice in the header");
          }
          in.expect(':');
          if (name.equals(METADATA)) {
            metadataSeen = true;
            parseMetadata(in);
          } else {
            tensor = name;
            entries.put(name, parseEntry(in, name));
            tensor = null;
          }
        } while (in.take(','));
        in.expect('}');
      }
      in.expectEnd();
    }

    private void parseMetadata(HeaderScanner in) throws Malformed {
      in.expect('{');
      if (in.take('}')) {
        return;
      }
      do {
        String key = in.string();
        in.expect(':');
        if (metadata.put(key, in.string()) != null) {
          throw new SafetensorsException(file, null, "metadata key '" + key + "' occurs twice");
        }
      } while (in.take(','));
      in.expect('}');
    }

    private Entry parseEntry(HeaderScanner in, String name) throws Malformed {
      @Nullable String dtype = null;
      long @Nullable [] shape = null;
      long @Nullable [] offsets = null;
      in.expect('{');
      do {
        String key = in.string();
        in.expect(':');
        boolean again =
            switch (key) {
              case "dtype" -> dtype != null;
              case "shape" -> shape != null;
              case "data_offsets" -> offsets != null;
              default -> throw bad(name, "unknown key '" + key + "'");
            };
        if (again) {
          throw bad(name, "key '" + key + "' occurs twice");
        }
        switch (key) {
          case "dtype" -> dtype = in.string();
          case "shape" -> shape = parseNaturals(in, MAX_DIMENSIONS, name, key);
          default -> offsets = parseNaturals(in, 2, name, key);
        }
      } while (in.take(','));
      in.expect('}');
      if (dtype == null || shape == null || offsets == null) {
        String missing = dtype == null ? "dtype" : shape == null ? "shape" : "data_offsets";
        throw bad(name, "key '" + missing + "' is missing");
      }
      return entry(name, dtype, shape, offsets);
    }

    private long[] parseNaturals(HeaderScanner in, int max, String name, String key)
        throws Malformed {
      List<Long> values = new ArrayList<>();
      in.expect('[');
      if (!in.take(']')) {
        do {
          if (values.size() == max) {
            throw bad(name, key + " has more than " + max + " numbers");
          }
          values.add(in.natural());
        } while (in.take(','));
        in.expect(']');
      }
      return values.stream().mapToLong(Long::longValue).toArray();
    }

    private Entry entry(String name, String dtypeName, long[] shape, long[] offsets) {
      DType dtype = FileTypes.parse(dtypeName);
      if (dtype == null) {
        throw bad(name, "dtype '" + dtypeName + "' is not one of " + FileTypes.known());
      }
      if (offsets.length != 2 || offsets[0] > offsets[1]) {
        throw bad(name, "data_offsets must be [begin, end] with begin <= end");
      }
      long bytes;
      try {
        long elements = 1;
        for (long extent : shape) {
          elements = Math.multiplyExact(elements, extent);
        }
        bytes = dtype.bytes(elements);
      } catch (ArithmeticException e) {
        throw bad(name, "the shape has more than 2^63 - 1 bits");
      } catch (IllegalArgumentException e) {
        throw bad(name, String.valueOf(e.getMessage()));
      }
      if (bytes != offsets[1] - offsets[0]) {
        throw bad(
            name,
            "dtype and shape need %d bytes, data_offsets [%d, %d] give %d"
                .formatted(bytes, offsets[0], offsets[1], offsets[1] - offsets[0]));
      }
      return new Entry(dtype, shape.length == 0 ? new long[] {1} : shape, offsets[0], offsets[1]);
    }

    private SafetensorsException bad(String name, String problem) {
      return new SafetensorsException(file, name, problem);
    }
  }

  private static void checkCoverage(String file, Map<String, Entry> entries, long dataBytes) {
    List<Map.Entry<String, Entry>> sorted = new ArrayList<>(entries.entrySet());
    sorted.sort(
        Comparator.<Map.Entry<String, Entry>>comparingLong(e -> e.getValue().begin())
            .thenComparingLong(e -> e.getValue().end()));
    long covered = 0;
    for (Map.Entry<String, Entry> e : sorted) {
      Entry entry = e.getValue();
      if (entry.end() > dataBytes) {
        throw new SafetensorsException(
            file,
            e.getKey(),
            "data_offsets [%d, %d] are outside the %d data bytes of the file: check for truncation"
                .formatted(entry.begin(), entry.end(), dataBytes));
      }
      if (entry.begin() != covered) {
        throw new SafetensorsException(
            file,
            e.getKey(),
            "data_offsets begin at %d; the tensors before end at %d: %s"
                .formatted(
                    entry.begin(),
                    covered,
                    entry.begin() < covered ? "they overlap" : "there is a hole"));
      }
      covered = entry.end();
    }
    if (covered != dataBytes) {
      throw new SafetensorsException(
          file, null, (dataBytes - covered) + " bytes after the last tensor belong to no tensor");
    }
  }
}
