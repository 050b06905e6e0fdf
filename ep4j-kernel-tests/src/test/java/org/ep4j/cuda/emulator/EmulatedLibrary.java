package org.ep4j.cuda.emulator;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeMap;
import org.ep4j.conformance.world.HostCompiler;
import org.ep4j.cuda.jit.BuildCache;

/**
 * Kernels of another module in the emulator, as a library of this process: a call runs a kernel of
 * one GPU over memory of the host, in an order of threads that a seed draws. A failure that the
 * emulator finds ends the process with its report. Any thread; one kernel runs at a time.
 */
@SuppressWarnings("restricted") // calls the kernels
public final class EmulatedLibrary {
  private static final String PROGRAM = "kernel_library.cpp";

  private static final List<String> OPTIONS =
      List.of(
          "-O1", "-std=c++20", "-w", "-ffp-contract=off", "-U_FORTIFY_SOURCE", "-shared", "-fPIC");

  private final SymbolLookup symbols;
  private final MethodHandle run;

  private EmulatedLibrary(SymbolLookup symbols) {
    this.symbols = symbols;
    run =
        Linker.nativeLinker()
            .downcallHandle(
                symbols.findOrThrow("ep4j_emulate"),
                FunctionDescriptor.ofVoid(
                    ValueLayout.JAVA_LONG,
                    ValueLayout.ADDRESS,
                    ValueLayout.ADDRESS,
                    ValueLayout.JAVA_INT,
                    ValueLayout.JAVA_INT,
                    ValueLayout.JAVA_LONG,
                    ValueLayout.ADDRESS));
  }

  /**
   * Compiles kernels in a directory, or takes them from the cache of an earlier build; skips the
   * test without g++.
   *
   * @param entry the kernels' file among {@code files}; all of them are {@code extern "C"} and take
   *     parameters of eight bytes
   */
  public static EmulatedLibrary compile(Path directory, String entry, Map<String, String> files)
      throws IOException, InterruptedException {
    HostCompiler.require("to compile kernels for the host");
    TreeMap<String, String> sources = new TreeMap<>();
    files.forEach((name, text) -> sources.put(name, EmulatedKernels.inPlaceOfShared(name, text)));
    // Last: they replace the instructions of the machine.
    EmulatedKernels.emulator(PROGRAM, sources);
    for (String name : files.keySet()) {
      EmulatedKernels.emulator(name, sources);
    }
    sources.put(PROGRAM, "#define KERNELS \"" + entry + "\"\n" + sources.get(PROGRAM));
    List<String> parts = new ArrayList<>(OPTIONS);
    parts.add(HostCompiler.version());
    sources.forEach((name, text) -> parts.addAll(List.of(name, text)));
    String key = BuildCache.key(parts);
    Path library = directory.resolve("libkernels.so");
    Optional<byte[]> known = BuildCache.get(key);
    if (known.isPresent()) {
      Files.write(library, known.get());
    } else {
      for (var source : sources.entrySet()) {
        Path text = directory.resolve(source.getKey());
        Files.createDirectories(Objects.requireNonNull(text.getParent()));
        Files.writeString(text, source.getValue());
      }
      List<String> options = new ArrayList<>(OPTIONS);
      options.add("-I" + directory);
      HostCompiler.compile(directory.resolve(PROGRAM), library, options.toArray(String[]::new));
      BuildCache.put(key, PROGRAM, Files.readAllBytes(library));
    }
    return new EmulatedLibrary(SymbolLookup.libraryLookup(library, Arena.global()));
  }

  /**
   * Runs a kernel.
   *
   * @param parameters eight bytes each
   */
  public void run(
      long seed, String kernel, int blocks, int threads, long sharedBytes, long... parameters) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment words = arena.allocateFrom(ValueLayout.JAVA_LONG, parameters);
      MemorySegment call =
          symbols
              .find("ep4j_call_" + parameters.length)
              .orElseThrow(() -> new AssertionError(parameters.length + " parameters"));
      MemorySegment function = symbols.findOrThrow(kernel);
      run.invokeExact(seed, call, function, blocks, threads, sharedBytes, words);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new AssertionError(kernel, e);
    }
  }
}
