# privgrad_warnings(<target>): the warnings of this repository; they are errors if PRIVGRAD_WERROR
# is on (for CI and developers, not for people who only build a release).
function(privgrad_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                           # gcc 12 warns about std::string's own operator+ (gcc bug
                                           # 105651)
                                           $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                                           $<$<BOOL:${PRIVGRAD_WERROR}>:-Werror>)
endfunction()
