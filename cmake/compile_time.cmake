# Settings for the time of a build. Most of it is spent on reading headers repeatedly, and half of
# that on the JSON library's.
option(PRIVGRAD_UNITY_BUILD "Compile cold code several sources at a time: quicker from nothing, slower after an edit" OFF)
option(PRIVGRAD_CCACHE "Compile through ccache, where it is installed" ON)
# After an edit, this many sources are compiled together instead of a whole room. With 6 at a time,
# tests would take a quarter longer to compile, also on two cores, and an edit would take 9 s
# instead of 12.
set(privgrad_batch 12)

# Checkouts in different folders share compiled objects: file names are hashed relative to the
# sources, and the compiler's working directory is not hashed.
find_program(PRIVGRAD_CCACHE_PROGRAM ccache)
if(PRIVGRAD_CCACHE AND PRIVGRAD_CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(launcher env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${PRIVGRAD_CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

# privgrad_environment(<variable> <name> <pins>): the name of the folder below the user's cache that
# scripts/environment.sh makes from these pins.
function(privgrad_environment variable name pins)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${pins})
  file(SHA256 ${pins} hash)
  string(SUBSTRING ${hash} 0 12 hash)
  set(${variable} privgrad/${name}-${hash} PARENT_SCOPE)
endfunction()

# The only object that contains paths of this machine.
privgrad_environment(test_python test-python ${PROJECT_SOURCE_DIR}/tests/support/python-packages.txt)
add_library(privgrad_places STATIC cmake/places/places.cpp)
target_compile_definitions(privgrad_places PRIVATE
  PRIVGRAD_BUILD_PLACE="${PROJECT_BINARY_DIR}" PRIVGRAD_SOURCE_PLACE="${PROJECT_SOURCE_DIR}"
  PRIVGRAD_TEST_PYTHON="${test_python}")
target_include_directories(privgrad_places PUBLIC ${PROJECT_SOURCE_DIR}/cmake/places)

# privgrad_together(<target> <source>...): compiles these sources of the target a dozen at a time,
# if the build is configured for that; each call begins a new dozen. CMake's own UNITY_BUILD names
# sources by absolute paths, which no cache could share.
function(privgrad_together target)
  if(NOT PRIVGRAD_UNITY_BUILD)
    return()
  endif()
  set(sources ${ARGN})
  list(LENGTH sources length)
  if(length EQUAL 1)
    return()
  endif()
  set_source_files_properties(${sources} PROPERTIES HEADER_FILE_ONLY ON)
  get_target_property(number ${target} PRIVGRAD_UNITS)
  if(NOT number)
    set(number 0)
  endif()
  while(sources)
    list(SUBLIST sources 0 ${privgrad_batch} batch)
    list(REMOVE_ITEM sources ${batch})
    set(includes "")
    foreach(source IN LISTS batch)
      cmake_path(ABSOLUTE_PATH source)
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
      string(APPEND includes "#include \"${source}\"\n")
    endforeach()
    set(together ${CMAKE_CURRENT_BINARY_DIR}/${target}_${number}.cpp)
    file(CONFIGURE OUTPUT ${together} CONTENT "${includes}" @ONLY)
    target_sources(${target} PRIVATE ${together})
    math(EXPR number "${number} + 1")
  endwhile()
  set_target_properties(${target} PROPERTIES PRIVGRAD_UNITS ${number})
endfunction()

# privgrad_cold(<target> [EXCEPT <source>...])
#
# For code that is not part of a training step, of the noise, or of an accountant's bounds, so that
# its optimization would not be noticeable. Sources after EXCEPT are compiled normally.
function(privgrad_cold target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "EXCEPT")
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS arg_EXCEPT)
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      message(FATAL_ERROR "privgrad_cold(${target} EXCEPT): there is no ${source} here")
    endif()
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
    list(REMOVE_ITEM sources ${source} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endforeach()
  cmake_language(EVAL CODE "cmake_language(DEFER CALL privgrad_check_hot ${arg_EXCEPT})")
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_BINARY_DIR}/")
  if(sources)
    privgrad_together(${target} ${sources})
  endif()
endfunction()

# Setting the options of such a source again would remove the optimizer's flags, which only a time
# measurement would show.
function(privgrad_check_hot)
  foreach(source IN LISTS ARGN)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(NOT options MATCHES "-O3")
      message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}/${source}: its COMPILE_OPTIONS were overwritten, not appended to")
    endif()
  endforeach()
endfunction()

# privgrad_add_room(<name> [HOT <source>...] LINKS <word>...): a room of the framework. This is a
# static library of the sources in src/, compiled as described at privgrad_cold() except for the hot
# ones; its headers in include/ are available to targets that link it. LINKS: as for
# target_link_libraries().
function(privgrad_add_room name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HOT;LINKS")
  file(GLOB sources CONFIGURE_DEPENDS src/*.cpp)
  add_library(privgrad_${name} STATIC ${sources})
  add_library(privgrad::${name} ALIAS privgrad_${name})
  privgrad_warnings(privgrad_${name})
  privgrad_cold(privgrad_${name} EXCEPT ${arg_HOT})
  target_include_directories(privgrad_${name} PUBLIC include PRIVATE src)
  target_link_libraries(privgrad_${name} ${arg_LINKS})
endfunction()
