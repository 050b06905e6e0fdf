package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.ep4j.conformance.world.HostCompiler;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.moe.cublas.Cublas;
import org.ep4j.moe.cublas.CublasLt;
import org.ep4j.moe.cublas.Fp8Product;
import org.ep4j.moe.cublas.Product;
import org.ep4j.tensor.FloatConversions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Row-major products through the column-major functions of cuBLAS, which the host computes. */
class CublasTest {
  private final Random random = new Random(7);

  @BeforeAll
  static void build() throws IOException, InterruptedException {
    HostCublas.require();
  }

  /** A product with its factors and the result by plain arithmetic. */
  private record Case(Product product, MemorySegment out, double[] expected) {}

  private Case drawn(GuardedMemory memory, boolean fp32, boolean adds) {
    int rows = 1 + random.nextInt(9);
    int columns = 1 + random.nextInt(9);
    int terms = 1 + random.nextInt(20);
    boolean leftTransposed = random.nextBoolean();
    boolean rightTransposed = random.nextBoolean();
    float[] left = values(rows * terms);
    float[] right = values(terms * columns);
    float[] before = values(rows * columns);
    var expected = new double[rows * columns];
    for (int i = 0; i < rows; i++) {
      for (int j = 0; j < columns; j++) {
        double sum = adds ? before[i * columns + j] : 0;
        for (int t = 0; t < terms; t++) {
          sum +=
              (double) left[leftTransposed ? t * rows + i : i * terms + t]
                  * right[rightTransposed ? j * terms + t : t * columns + j];
        }
        expected[i * columns + j] = sum;
      }
    }
    MemorySegment out = fp32 ? memory.of(before) : bf16(memory, before);
    return new Case(
        new Product(
            rows,
            columns,
            terms,
            bf16(memory, left).address(),
            leftTransposed,
            bf16(memory, right).address(),
            rightTransposed,
            out.address(),
            fp32,
            adds),
        out,
        expected);
  }

  /** Values of BF16. */
  private float[] values(int count) {
    var values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] =
          FloatConversions.bf16ToFloat(FloatConversions.floatToBf16((float) random.nextGaussian()));
    }
    return values;
  }

  private static MemorySegment bf16(GuardedMemory memory, float[] values) {
    var bits = new short[values.length];
    for (int i = 0; i < bits.length; i++) {
      bits[i] = FloatConversions.floatToBf16(values[i]);
    }
    return memory.of(bits);
  }

  private static void assertComputed(Case one) {
    for (int i = 0; i < one.expected.length; i++) {
      double expected = one.expected[i];
      float value =
          one.product.fp32()
              ? one.out.getAtIndex(ValueLayout.JAVA_FLOAT, i)
              : FloatConversions.bf16ToFloat(one.out.getAtIndex(ValueLayout.JAVA_SHORT, i));
      double bound = one.product.fp32() ? 1e-4 : 1e-4 + Math.abs(expected) / 256;
      assertThat((double) value).as(one.product.toString()).isCloseTo(expected, within(bound));
    }
  }

  @Test
  void productsAreThoseOfPlainArithmetic() {
    try (var memory = new GuardedMemory();
        Cublas cublas = Cublas.open(1, memory.allocate(256).address())) {
      for (int number = 0; number < 200; number++) {
        Case one = drawn(memory, random.nextBoolean(), random.nextBoolean());
        cublas.multiply(one.product);
        assertComputed(one);
      }
    }
  }

  @Test
  void groupsOfProductsAreThoseOfPlainArithmetic() {
    try (var memory = new GuardedMemory();
        Cublas cublas = Cublas.open(1, memory.allocate(256).address())) {
      for (int number = 0; number < 40; number++) {
        List<Case> cases = new ArrayList<>();
        for (int i = random.nextInt(6); i > 0; i--) {
          cases.add(drawn(memory, false, false));
        }
        List<Product> products = cases.stream().map(Case::product).toList();
        cublas.multiplyAll(products, addresses -> memory.of(addresses).address());
        cases.forEach(CublasTest::assertComputed);
      }
    }
  }

  @Test
  void productsOfFp8AreThoseOfPlainArithmetic() {
    try (var memory = new GuardedMemory();
        CublasLt cublas = CublasLt.open(1, memory.allocate(256).address()).orElseThrow()) {
      for (int number = 0; number < 6; number++) {
        int rows = Fp8Product.ROWS * (1 + random.nextInt(3));
        int columns = 128 * (1 + random.nextInt(2));
        int terms = Fp8Product.TERMS * (1 + random.nextInt(2));
        byte[] left = FloatConversions.floatToE4m3(values(rows * terms));
        byte[] right = FloatConversions.floatToE4m3(values(columns * terms));
        float[] scales = factors(terms / 128 * rows);
        float[] factors = factors(columns / 128 * (terms / 128));
        // Each second time, addresses are multiples of 16 alone.
        int more = number % 2 * Fp8Product.ALIGNMENT;
        MemorySegment out = memory.allocate(2L * rows * columns + more).asSlice(more);
        assertThat(cublas.supports(columns, terms)).isTrue();
        cublas.multiply(
            new Fp8Product(
                rows,
                columns,
                terms,
                bytes(memory, left, more),
                memory.of(scales).address(),
                bytes(memory, right, more),
                memory.of(factors).address(),
                out.address()));
        for (int i = 0; i < rows * columns; i++) {
          double sum = 0;
          for (int t = 0; t < terms; t++) {
            sum +=
                (double) FloatConversions.e4m3ToFloat(left[i / columns * terms + t])
                    * scales[t / 128 * rows + i / columns]
                    * FloatConversions.e4m3ToFloat(right[i % columns * terms + t])
                    * factors[i % columns / 128 * (terms / 128) + t / 128];
          }
          float value = FloatConversions.bf16ToFloat(out.getAtIndex(ValueLayout.JAVA_SHORT, i));
          assertThat((double) value).isCloseTo(sum, within(1e-3 + Math.abs(sum) / 256));
        }
      }
      assertThat(cublas.supports(128, 384)).isFalse();
      assertThat(cublas.supports(64, 512)).isFalse();
    }
  }

  private float[] factors(int count) {
    var factors = new float[count];
    for (int i = 0; i < count; i++) {
      factors[i] = .5f + random.nextFloat();
    }
    return factors;
  }

  private static long bytes(GuardedMemory memory, byte[] values, int more) {
    MemorySegment place = memory.allocate(values.length + more).asSlice(more);
    return place.copyFrom(MemorySegment.ofArray(values)).address();
  }

  /** A process of its own: a library is loaded once. */
  private static HostCompiler.Outcome inAnotherProcess(String library)
      throws IOException, InterruptedException {
    return HostCompiler.run(
        List.of(
            "/usr/bin/env",
            "EP4J_CUBLAS=" + library,
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "--enable-native-access=ALL-UNNAMED",
            "--class-path",
            System.getProperty("java.class.path"),
            CublasTest.class.getName()),
        60);
  }

  /** Prints whether the library has groups, and their sums. */
  public static void main(String[] none) {
    try (var memory = new GuardedMemory();
        Cublas cublas = Cublas.open(1, memory.allocate(256).address())) {
      List<Product> products = new ArrayList<>();
      List<MemorySegment> results = new ArrayList<>();
      for (int i = 1; i <= 3; i++) {
        MemorySegment result = memory.of((short) 0);
        results.add(result);
        MemorySegment factors = bf16(memory, new float[] {i, i});
        products.add(
            Product.byWeights(1, 1, 2, factors.address(), factors.address(), result.address()));
      }
      var grouped = new boolean[1];
      cublas.multiplyAll(
          products,
          addresses -> {
            grouped[0] = true;
            return memory.of(addresses).address();
          });
      System.out.print(CublasLt.open(1, memory.allocate(256).address()).isPresent() + " ");
      System.out.print(grouped[0]);
      for (MemorySegment result : results) {
        short bits = result.get(ValueLayout.JAVA_SHORT, 0);
        System.out.print(" " + FloatConversions.bf16ToFloat(bits));
      }
    } catch (EngineUnavailableException e) {
      System.out.print(e.getMessage());
    }
  }

  @Test
  void librariesWithoutGroupsComputeOneProductAfterTheOther(@TempDir Path directory)
      throws IOException, InterruptedException {
    HostCompiler.Outcome outcome = inAnotherProcess(HostCublas.withoutGroups(directory).toString());
    assertThat(outcome.output()).endsWith("false false 2.0 8.0 18.0");
  }

  @Test
  void missingLibraryIsNamedWithWhatWasSearched(@TempDir Path directory)
      throws IOException, InterruptedException {
    HostCompiler.Outcome outcome = inAnotherProcess(directory.toString());
    assertThat(outcome.output())
        .contains("EP4J-6210: no cuBLAS: EP4J_CUBLAS is '" + directory + "'")
        .contains("neither a loadable library nor a directory that contains it");
  }

  @Test
  void failedCallsNameTheCallAndItsResult() {
    try (var memory = new GuardedMemory()) {
      assertThatThrownBy(() -> Cublas.open(1, memory.allocate(256).address() + 8))
          .hasMessageContaining(ErrorCode.CUBLAS_CALL_FAILED.id())
          .hasMessageContaining("cublasSetWorkspace")
          .hasMessageContaining("CUBLAS_STATUS_INVALID_VALUE (7)");
    }
  }

  @Test
  void emptyProductsAreRefused() {
    assertThatThrownBy(() -> Product.byWeights(0, 4, 4, 1, 1, 1))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("[0, 4] by [4, 4]");
  }
}
