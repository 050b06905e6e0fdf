package org.ep4j.cuda.jit;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.ep4j.cuda.struct.SharedStructs;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * The source of a kernel: a file of this jar and everything that it includes, directly or
 * indirectly. Includes name files below {@code org/ep4j/cuda/kernels}, by their path from that
 * root, {@code common/ptx.cuh}, or declarations of {@link SharedStructs}; CUDA headers cannot be
 * included, because machines that run kernels may not have them.
 *
 * @param entry the file that is compiled
 * @param files text by name, including the entry
 */
public record KernelSources(String entry, SortedMap<String, String> files) {
  private static final String ROOT = "/org/ep4j/cuda/kernels/";
  private static final Pattern INCLUDE =
      Pattern.compile("^[ \\t]*#[ \\t]*include[ \\t]*\"([^\"]+)\"", Pattern.MULTILINE);

  /** Copies the files. */
  public KernelSources {
    files = Collections.unmodifiableSortedMap(new TreeMap<>(files));
    if (!files.containsKey(entry)) {
      throw new InvalidArgumentException(
          ErrorCode.KERNEL_SPEC,
          "files",
          files.keySet().toString(),
          "a set with the entry " + entry,
          "add the entry");
    }
  }

  /**
   * Reads a file of this jar and its includes.
   *
   * @param entry for example {@code smoke.cu}
   */
  public static KernelSources of(String entry) {
    TreeMap<String, String> files = new TreeMap<>();
    ArrayDeque<String> open = new ArrayDeque<>();
    open.add(entry);
    while (!open.isEmpty()) {
      String name = open.remove();
      if (files.containsKey(name)) {
        continue;
      }
      String text = read(name);
      files.put(name, text);
      Matcher include = INCLUDE.matcher(text);
      while (include.find()) {
        open.add(include.group(1));
      }
    }
    return new KernelSources(entry, files);
  }

  /** The text to compile. */
  public String text() {
    String text = files.get(entry);
    if (text == null) {
      throw new AssertionError("checked on construction");
    }
    return text;
  }

  /** The other files by include name. */
  public SortedMap<String, String> headers() {
    TreeMap<String, String> headers = new TreeMap<>(files);
    headers.remove(entry);
    return headers;
  }

  private static String read(String name) {
    String declaration = SharedStructs.declaration(name);
    if (declaration != null) {
      return declaration;
    }
    try (InputStream in = KernelSources.class.getResourceAsStream(ROOT + name)) {
      if (in == null) {
        throw new InvalidArgumentException(
            ErrorCode.KERNEL_SPEC, "kernel source", name, "a file of this jar", "check the name");
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException("reading kernel source " + name, e);
    }
  }
}
