package org.ep4j.cuda.soak;

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
import org.ep4j.conformance.world.HostCompiler;
import org.ep4j.execution.DeviceStream;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** The host instead of a GPU: the same kernels, compiled by g++, over host memory. */
@SuppressWarnings("restricted") // calls the kernels
final class HostMachine implements SoakMachine {
  private static final int ALIGNMENT = 64;

  /** The kernels of all ranks. */
  static final class Library {
    private final SymbolLookup symbols;
    private final MethodHandle run;

    private Library(Path file) {
      symbols = SymbolLookup.libraryLookup(file, Arena.global());
      run =
          Linker.nativeLinker()
              .downcallHandle(
                  symbols.findOrThrow("ep4j_soak_run"),
                  FunctionDescriptor.ofVoid(ValueLayout.ADDRESS, ValueLayout.ADDRESS));
    }

    /** Compiles the kernels in a directory; skips the test without g++. */
    static Library compile(Path directory) throws IOException, InterruptedException {
      HostCompiler.require("to compile the soak's kernels for the host");
      for (var file : SoakSources.files().entrySet()) {
        Files.writeString(directory.resolve(file.getKey()), file.getValue());
      }
      Files.writeString(directory.resolve("host.hpp"), SoakSources.read("host.hpp"));
      Files.writeString(
          directory.resolve("library.cpp"),
          """
          #include "host.hpp"
          #include "%s"
          extern "C" void ep4j_soak_run(void (*kernel)(Words), const Words* words) {
            kernel(*words);
          }
          """
              .formatted(SoakSources.ENTRY));
      Path library = directory.resolve("libsoak.so");
      HostCompiler.compile(
          directory.resolve("library.cpp"),
          library,
          "-std=c++20",
          "-O2",
          "-fno-strict-aliasing",
          "-Wall",
          "-Wno-unused-function",
          "-shared",
          "-fPIC");
      return new Library(library);
    }
  }

  private final Library library;
  private final Arena arena = Arena.ofShared();

  HostMachine(Library library) {
    this.library = library;
  }

  private record HostBlock(MemorySegment bytes) implements Block {
    @Override
    public long address() {
      return bytes.address();
    }

    @Override
    public Tensor as(DType dtype, long... shape) {
      return Tensor.of(bytes, dtype, shape);
    }

    @Override
    public void write(MemorySegment source) {
      bytes.asSlice(0, source.byteSize()).copyFrom(source);
    }

    @Override
    public void read(MemorySegment target) {
      target.copyFrom(bytes.asSlice(0, target.byteSize()));
    }
  }

  @Override
  public Block allocate(long bytes) {
    return new HostBlock(arena.allocate(bytes, ALIGNMENT));
  }

  @Override
  public void launch(SoakKernel kernel, MemorySegment words) {
    try {
      library.run.invokeExact(library.symbols.findOrThrow(kernel.entry()), words);
    } catch (Throwable e) {
      throw new AssertionError(kernel.entry(), e);
    }
  }

  @Override
  public @Nullable DeviceStream stream() {
    return null;
  }

  @Override
  public boolean isSharedBy(int ranks) {
    return false;
  }

  @Override
  public void finish() {
    // A launch returns when the kernel has ended.
  }

  @Override
  public void close() {
    arena.close();
  }
}
