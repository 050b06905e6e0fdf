package org.ep4j.cuda.jit;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Resources of a kernel, as the assembler reports them.
 *
 * @param name name of the kernel
 * @param registers registers per thread
 * @param stackBytes local memory per thread
 * @param spillStoreBytes bytes of spill stores in the code, not as executed
 * @param spillLoadBytes bytes of spill loads in the code
 * @param sharedBytes shared memory per block that the source fixes
 */
public record KernelResources(
    String name,
    int registers,
    int stackBytes,
    int spillStoreBytes,
    int spillLoadBytes,
    int sharedBytes) {
  private static final Pattern ENTRY = Pattern.compile("Compiling entry function '([^']+)'");
  private static final Pattern STACK =
      Pattern.compile(
          "(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads");
  private static final Pattern USED = Pattern.compile("Used (\\d+) registers");
  private static final Pattern SHARED = Pattern.compile("(\\d+) bytes smem");

  /** Kernels in the verbose log of the assembler, in log order. */
  public static List<KernelResources> parse(String log) {
    List<KernelResources> found = new ArrayList<>();
    String name = "";
    int[] stack = new int[3];
    for (String line : log.split("\n")) {
      Matcher entry = ENTRY.matcher(line);
      Matcher frame = STACK.matcher(line);
      Matcher used = USED.matcher(line);
      if (entry.find()) {
        name = KernelName.readable(entry.group(1));
        stack = new int[3];
      } else if (frame.find() && !name.isEmpty()) {
        for (int i = 0; i < stack.length; i++) {
          stack[i] = Integer.parseInt(frame.group(i + 1));
        }
      } else if (used.find() && !name.isEmpty()) {
        Matcher shared = SHARED.matcher(line);
        found.add(
            new KernelResources(
                name,
                Integer.parseInt(used.group(1)),
                stack[0],
                stack[1],
                stack[2],
                shared.find() ? Integer.parseInt(shared.group(1)) : 0));
        name = "";
      }
    }
    return found;
  }

  /** Whether registers were spilled to memory. */
  public boolean spills() {
    return spillStoreBytes > 0 || spillLoadBytes > 0;
  }

  @Override
  public String toString() {
    return name
        + ": "
        + registers
        + " registers, "
        + stackBytes
        + " bytes stack, "
        + (spillStoreBytes + spillLoadBytes)
        + " bytes spilled, "
        + sharedBytes
        + " bytes shared";
  }
}
