package org.ep4j.cuda.struct;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * A structure that the host and kernels share. A subclass is its only definition: the fields in
 * order, each with its C type, its name in kernels, and a comment with its meaning. Kernels include
 * the {@linkplain #declaration() declaration} that this class generates from it. The host writes
 * the fields in the memory where it has {@linkplain #placeIn placed} the structure.
 *
 * <p>The type of a field decides which values it accepts: numbers and flags are no addresses.
 * Writing allocates nothing. One thread at a time.
 */
public abstract class Struct {
  /** Directory of the declarations in the includes of kernels. */
  private static final String DIRECTORY = "structs/";

  private record Member(String type, String name, String dimension, long bytes) {}

  private record Nested(Struct struct, long offset) {}

  private final String name;
  private final String types;
  private final List<Member> members = new ArrayList<>();
  private final List<Nested> nested = new ArrayList<>();
  private MemorySegment memory = MemorySegment.NULL;
  private long bytes;

  /** A structure with this name in kernels. */
  protected Struct(String name) {
    this(name, "common/ptx.cuh");
  }

  /**
   * A structure with this name in kernels.
   *
   * @param types the kernel file that defines the types of its numbers
   */
  protected Struct(String name, String types) {
    this.name = name;
    this.types = types;
  }

  /** A number of 64 bits; a flag is 1 or 0. */
  public final class U64 {
    private final long offset;

    private U64(long offset) {
      this.offset = offset;
    }

    public void set(long value) {
      memory.set(ValueLayout.JAVA_LONG, offset, value);
    }

    public void set(boolean value) {
      set(value ? 1L : 0L);
    }

    /** Distance from the start of the structure. */
    public long offset() {
      return offset;
    }
  }

  /** An address that kernels access. */
  public final class Pointer {
    private final long offset;

    private Pointer(long offset) {
      this.offset = offset;
    }

    public void set(long address) {
      memory.set(ValueLayout.JAVA_LONG, offset, address);
    }

    public void setNull() {
      set(0L);
    }

    /** Distance from the start of the structure. */
    public long offset() {
      return offset;
    }

    /**
     * Fails, where the compiler would otherwise widen a number to an address.
     *
     * @deprecated so that compiling a call is an error
     */
    @Deprecated
    @SuppressWarnings("DoNotCallSuggester") // its annotation would be a dependency
    public void set(int number) {
      throw new AssertionError(number + " has 32 bits and is no address");
    }
  }

  /** Adds a number. */
  protected final U64 u64(String field) {
    return u64("u64", field);
  }

  /**
   * Adds a number.
   *
   * @param type a type that holds just a {@code u64}
   */
  protected final U64 u64(String type, String field) {
    return new U64(add(type, field, "", Long.BYTES));
  }

  /**
   * Adds a pointer.
   *
   * @param type {@code const u32*}, or {@code struct Record*}, which needs no declaration
   */
  protected final Pointer pointer(String type, String field) {
    if (!type.endsWith("*")) {
      throw new AssertionError(type + " " + field + " is no pointer");
    }
    return new Pointer(add(type, field, "", Long.BYTES));
  }

  /** Adds another structure as a member. */
  protected final <S extends Struct> S nested(S struct, String field) {
    nested.add(new Nested(struct, add(struct.name(), field, "", struct.bytes())));
    return struct;
  }

  /** Adds words that neither side uses. */
  protected final void unused(String field, int words) {
    add("u64", field, "[" + words + "]", (long) words * Long.BYTES);
  }

  /** Returns the offset of the member: members are multiples of 8 bytes, without padding. */
  private long add(String type, String field, String dimension, long size) {
    long offset = bytes;
    members.add(new Member(type, field, dimension, size));
    bytes += size;
    return offset;
  }

  /** Name in kernels. */
  public final String name() {
    return name;
  }

  /** Size in bytes. */
  public final int bytes() {
    return Math.toIntExact(bytes);
  }

  /**
   * Makes the fields write to this memory; its start is the start of the structure.
   *
   * @param target aligned to 8 bytes
   */
  public final void placeIn(MemorySegment target) {
    memory = target.asSlice(0, bytes);
    nested.forEach(part -> part.struct.placeIn(memory.asSlice(part.offset)));
  }

  /** The include that names the declaration: {@code structs/receipt.cuh}. */
  final String file() {
    String words = name.replaceAll("(?<=[a-z0-9])(?=[A-Z])", "_");
    return DIRECTORY + words.toLowerCase(Locale.ROOT) + ".cuh";
  }

  /**
   * The text that kernels include. Every compiler checks the sizes of the fields and that they add
   * up to the size of the structure. So there is no padding, and each field lies where the host
   * writes it: behind the sizes before it.
   */
  final String declaration() {
    StringBuilder text = new StringBuilder("// Generated from ").append(getClass().getName());
    text.append(", which documents the fields.\n#pragma once\n");
    text.append("#include \"").append(types).append("\"\n");
    nested.forEach(part -> text.append("#include \"").append(part.struct.file()).append("\"\n"));
    text.append("\nstruct ").append(name).append(" {\n");
    for (Member member : members) {
      text.append("  " + member.type + " " + member.name + member.dimension + ";\n");
    }
    text.append("};\n\n");
    for (Member member : members) {
      text.append(sizeCheck(name + "::" + member.name, member.bytes));
    }
    return text.append(sizeCheck(name, bytes)).toString();
  }

  private static String sizeCheck(String what, long size) {
    return "static_assert(sizeof(" + what + ") == " + size + ", \"" + what + "\");\n";
  }
}
