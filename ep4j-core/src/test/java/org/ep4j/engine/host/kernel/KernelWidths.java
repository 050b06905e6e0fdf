package org.ep4j.engine.host.kernel;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Method;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;

/**
 * The kernels of every width in one JVM. A process has one width, a constant of its classes; each
 * further width loads the classes again with a separate loader.
 */
final class KernelWidths {
  private static final List<RowKernels> VECTORS = List.of(load(128), load(256), load(512));

  private KernelWidths() {}

  static Stream<Named<RowKernels>> all() {
    return Stream.concat(Stream.of(new PlainKernels()), VECTORS.stream())
        .map(kernels -> Named.of(kernels.vectorBits() + " bits", kernels));
  }

  /** All except the plain ones, narrow to wide. */
  static Stream<RowKernels> vectors() {
    return VECTORS.stream();
  }

  private static RowKernels load(int bits) {
    String before = System.getProperty(KernelChoice.PROPERTY);
    System.setProperty(KernelChoice.PROPERTY, Integer.toString(bits));
    try {
      Loader loader = new Loader();
      RowKernels.class
          .getModule()
          .addExports(RowKernels.class.getPackageName(), loader.getUnnamedModule());
      Method kernels = loader.loadClass(KernelChoice.class.getName()).getDeclaredMethod("kernels");
      kernels.setAccessible(true);
      return (RowKernels) kernels.invoke(null);
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("kernels of " + bits + " bits do not load", e);
    } finally {
      if (before == null) {
        System.clearProperty(KernelChoice.PROPERTY);
      } else {
        System.setProperty(KernelChoice.PROPERTY, before);
      }
    }
  }

  /** Defines the classes of the package again, except the type that the tests share. */
  private static final class Loader extends ClassLoader {
    Loader() {
      super(KernelWidths.class.getClassLoader());
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
      String prefix = RowKernels.class.getPackageName() + ".";
      if (!name.startsWith(prefix) || name.equals(RowKernels.class.getName())) {
        return super.loadClass(name, resolve);
      }
      synchronized (getClassLoadingLock(name)) {
        Class<?> loaded = findLoadedClass(name);
        return loaded != null ? loaded : define(name, name.substring(prefix.length()));
      }
    }

    private Class<?> define(String name, String simpleName) throws ClassNotFoundException {
      try (InputStream in = RowKernels.class.getResourceAsStream(simpleName + ".class")) {
        if (in == null) {
          throw new ClassNotFoundException(name);
        }
        byte[] bytes = in.readAllBytes();
        return defineClass(name, bytes, 0, bytes.length);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
